package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl/kcltest"
)

// account is the account and the access key: kinesis-local takes the one from
// the other.
const account = kcltest.DefaultAccount

// caseTimeout bounds a case in real time.
const caseTimeout = 2 * time.Minute

// target is something that answers for Kinesis, DynamoDB or both.
type target struct {
	name              string
	kinesis, dynamodb bool
	// bubble says that time is virtual.
	bubble bool
	// open returns the configuration of clients for a case.
	open func(testing.TB, kase) aws.Config
}

// inMemory is kcltest without a network, fresh for each case, to be used inside
// a bubble.
var inMemory = target{name: "kcltest", kinesis: true, dynamodb: true, bubble: true,
	open: func(_ testing.TB, c kase) aws.Config {
		return kcltest.New(options(c)).Config(account)
	},
}

func options(c kase) kcltest.Options {
	return kcltest.Options{Latency: 2 * time.Millisecond, NoThrottling: !c.quotas}
}

// ask runs a case and returns what each of its checks found.
func (g target) ask(t testing.TB, c kase) []finding {
	ctx := t.Context()
	if !g.bubble {
		limited, cancel := context.WithTimeout(ctx, caseTimeout)
		defer cancel()
		ctx = limited
	}
	cfg := g.open(t, c)
	if cfg.Retryer == nil {
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // a refusal is to be seen
	}
	w := &world{config: cfg, dynamodb: dynamodb.NewFromConfig(cfg), kinesis: kinesis.NewFromConfig(cfg)}
	top := &T{world: w, ctx: ctx, path: c.name}
	top.do(c.run)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findings
}
