package kcltest

import (
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/go-kcl/kcl/internal/emu/dynamodb"
	"github.com/go-kcl/kcl/internal/emu/kinesis"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// DefaultAccount and DefaultRegion are where in-memory clients live unless
// Options say otherwise.
const (
	DefaultAccount = "123456789012"
	DefaultRegion  = "us-east-1"
)

// Options set up an [AWS]. The zero value is a quick, well-behaved service.
type Options struct {
	// Account is the 12-digit account of every access key that Accounts does not
	// list. Default [DefaultAccount].
	Account string
	// Accounts gives access keys (client names) accounts of their own.
	Accounts map[string]string
	// Region is the region of in-memory clients. Default [DefaultRegion].
	Region string

	// Latency is the mean time that a call of an in-memory client takes, spread
	// evenly over half to one and a half times of it. Default 0: calls take no
	// time. Calls over HTTP are not delayed.
	Latency time.Duration
	// Seed makes latencies, request ids and everything else that looks random
	// repeatable.
	Seed uint64

	// Delays says how long streams, tables and indexes take to be created,
	// changed and deleted. Default [ShortDelays].
	Delays Delays
	// StaleReads is the greatest age of what a DynamoDB read without
	// ConsistentRead may return. Default 0.
	StaleReads time.Duration
	// IndexLag is how much later than its table a DynamoDB index shows a write.
	// Default 0.
	IndexLag time.Duration
	// NoThrottling lifts the quotas on calls, records and bytes per second.
	NoThrottling bool

	// OnCall, if set, is told of every call after it was answered. It must be
	// safe for concurrent use.
	OnCall func(Call)
	// Logger takes what should not happen, such as a request that is no AWS
	// call. Default: none.
	Logger *slog.Logger
}

// Delays says how long operations of the control plane take.
type Delays uint8

const (
	// ShortDelays are long enough for every state to be met: a table takes half
	// a second to become ACTIVE, an index added to a live table three.
	ShortDelays Delays = iota
	// NoDelays are as short as can be: nothing but a reshard and the deletion of
	// a stream, which take one second, because the service's own rules need it.
	NoDelays
	// RealDelays are about what AWS takes: 18 s for a table with an index, 20 s
	// for a stream, 9 minutes for an index added to a live table.
	RealDelays
)

// AWS is one emulated AWS: accounts and regions with their own streams and
// tables. It is safe for concurrent use.
type AWS struct {
	opts     Options
	dynamodb *dynamodb.Service
	kinesis  *kinesis.Service
	log      *slog.Logger

	mu sync.Mutex
	// Guarded by mu.
	calls     map[callKey]*tally
	clients   map[string]uint64 // calls made so far, by client
	intercept wire.Interceptor
	faults    []*Injection
	injected  uint64 // faults so far
}

// New returns an AWS with no streams and no tables.
func New(o Options) *AWS {
	if o.Account == "" {
		o.Account = DefaultAccount
	}
	if o.Region == "" {
		o.Region = DefaultRegion
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &AWS{
		opts:     o,
		dynamodb: dynamodb.New(dynamoConfig(o)),
		kinesis:  newKinesis(kinesisConfig(o)),
		log:      log,
		calls:    make(map[callKey]*tally),
		clients:  make(map[string]uint64),
	}
}

// Config returns the configuration of an in-memory client called name, which
// serves as its access key id and tells it apart in [AWS.Calls]. Its clients
// make no network connection and start no goroutine.
func (a *AWS) Config(name string) aws.Config {
	return aws.Config{
		Region:       a.opts.Region,
		BaseEndpoint: aws.String("http://kcltest"),
		HTTPClient:   &memoryClient{aws: a, name: name},
		Credentials:  credentials(name),
	}
}

// Intercept installs the module's own hook in the path of every call; nil takes
// it out. The parameter's type is internal: it serves the library's tests.
func (a *AWS) Intercept(i wire.Interceptor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.intercept = i
}

func (a *AWS) interceptor() wire.Interceptor {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.intercept
}

func (a *AWS) account(accessKey string) string {
	if acct, ok := a.opts.Accounts[accessKey]; ok {
		return acct
	}
	return a.opts.Account
}
