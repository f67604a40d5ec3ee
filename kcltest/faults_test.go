package kcltest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

// faulty is a table, and clients that do not retry.
type faulty struct {
	*kcltest.AWS
	t      *testing.T
	config func(client string) aws.Config
}

func newFaulty(t *testing.T) faulty {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	f := faulty{a, t, a.Config}
	putTable(t, f.client("setup"), "table")
	return f
}

func inFaulty(t *testing.T, f func(t *testing.T, a faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFaulty(t)) })
}

// inFaultyBoth does the same with clients in memory, and with clients over HTTP.
func inFaultyBoth(t *testing.T, f func(t *testing.T, a faulty)) {
	t.Run("in memory", func(t *testing.T) { inFaulty(t, f) })
	t.Run("over HTTP", func(t *testing.T) {
		inFaulty(t, func(t *testing.T, a faulty) {
			a.config = overHTTP(t, a.AWS)
			f(t, a)
		})
	})
}

// overHTTP serves a over pipes, which work in a bubble.
func overHTTP(t *testing.T, a *kcltest.AWS) func(client string) aws.Config {
	l := pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := a.Server()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}}
	t.Cleanup(func() {
		h.CloseIdleConnections()
		_ = s.Close()
		<-served
	})
	return func(client string) aws.Config {
		return aws.Config{Region: kcltest.DefaultRegion, BaseEndpoint: aws.String("http://aws"), HTTPClient: h,
			Credentials: credentials.NewStaticCredentialsProvider(client, "secret", "")}
	}
}

// pipes is a listener whose connections come over a channel.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error {
	close(l.closed)
	return nil
}

func (l pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (a faulty) client(name string) *dynamodb.Client {
	return dynamodb.NewFromConfig(a.config(name), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
}

// put writes an item and returns the error's code, "broken" or "gave up" for
// those without one.
func (a faulty) put(client, k string, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	_, err := a.client(client).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("table"), Item: key(k)})
	var api smithy.APIError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &api):
		return api.ErrorCode()
	case errors.Is(err, context.DeadlineExceeded):
		return "gave up"
	default:
		return "broken"
	}
}

func (a faulty) has(k string) bool {
	out, err := a.client("test").GetItem(a.t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key(k), ConsistentRead: aws.Bool(true)})
	require.NoError(a.t, err)
	return len(out.Item) > 0
}

// Each effect, as the caller sees it and as the table does, at once and later.
func TestFaultEffects(t *testing.T) {
	cases := []struct {
		fault       kcltest.Fault
		outcome     string
		took        time.Duration
		done, later bool // the write has been carried out; in the end
	}{
		{kcltest.Fault{Effect: kcltest.Slow, Delay: 2 * time.Second}, "ok", 2 * time.Second, true, true},
		{kcltest.Fault{Effect: kcltest.Slow, Delay: time.Minute}, "gave up", 5 * time.Second, false, false},
		{kcltest.Fault{Effect: kcltest.Refuse, Code: "ThrottlingException"}, "ThrottlingException", 0, false, false},
		{kcltest.Fault{Effect: kcltest.Refuse, Code: "InternalServerError", Delay: time.Second}, "InternalServerError", time.Second, false, false},
		{kcltest.Fault{Effect: kcltest.Refuse, Code: "AccessDeniedException"}, "AccessDeniedException", 0, false, false},
		{kcltest.Fault{Effect: kcltest.Refuse, Code: "SomethingElseException"}, "SomethingElseException", 0, false, false},
		{kcltest.Fault{Effect: kcltest.Break}, "broken", 0, false, false},
		{kcltest.Fault{Effect: kcltest.LoseAnswer}, "broken", 0, true, true},
		{kcltest.Fault{Effect: kcltest.Hang}, "gave up", 5 * time.Second, false, false},
		{kcltest.Fault{Effect: kcltest.Late, Delay: 3 * time.Second}, "ok", 3 * time.Second, true, true},
		{kcltest.Fault{Effect: kcltest.Late, Delay: 20 * time.Second}, "gave up", 5 * time.Second, false, true},
		{kcltest.Fault{Effect: kcltest.Freeze, For: 3 * time.Second}, "ok", 3 * time.Second, true, true},
		{kcltest.Fault{Effect: kcltest.Freeze, For: 20 * time.Second}, "gave up", 5 * time.Second, false, true},
		{kcltest.Fault{Effect: kcltest.FreezeAnswer, For: 3 * time.Second}, "ok", 3 * time.Second, true, true},
		{kcltest.Fault{Effect: kcltest.FreezeAnswer, For: 20 * time.Second}, "gave up", 5 * time.Second, true, true},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.fault.Effect, " ", max(c.fault.Delay, c.fault.For), c.fault.Code), func(t *testing.T) {
			inFaultyBoth(t, func(t *testing.T, a faulty) {
				c.fault.Operations = []string{"PutItem"}
				i := a.Inject(c.fault)
				start := time.Now()
				assert.Equal(t, c.outcome, a.put("c", "x", 5*time.Second))
				assert.Equal(t, c.took, time.Since(start))
				assert.Equal(t, c.done, a.has("x"))
				assert.Equal(t, 1, i.Hits())
				time.Sleep(time.Minute)
				assert.Equal(t, c.later, a.has("x"))
				i.Remove()
				i.Remove()
				assert.Equal(t, "ok", a.put("c", "x", time.Second))
			})
		})
	}
}

// The calls of a frozen client stop, some before they are carried out and some after,
// and go on in their order when it thaws; other clients notice nothing.
func TestFrozenClient(t *testing.T) {
	inFaultyBoth(t, func(t *testing.T, a faulty) {
		arrived := a.Inject(kcltest.Fault{Clients: []string{"c"}, Effect: kcltest.FreezeAnswer, Times: 2})
		frozen := a.Inject(kcltest.Fault{Clients: []string{"c"}, Effect: kcltest.Freeze})
		const calls = 10
		answered := make(chan time.Duration, calls)
		start := time.Now()
		for n := range calls {
			go func() {
				_, err := a.client("c").UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("table"), Key: key("x"),
					UpdateExpression:          aws.String("SET seen = list_append(if_not_exists(seen, :none), :n)"),
					ExpressionAttributeValues: map[string]dtypes.AttributeValue{":none": &dtypes.AttributeValueMemberL{}, ":n": &dtypes.AttributeValueMemberL{Value: []dtypes.AttributeValue{&dtypes.AttributeValueMemberN{Value: fmt.Sprint(n)}}}}})
				assert.NoError(t, err)
				answered <- time.Since(start)
			}()
			time.Sleep(time.Second)
		}
		seen := func() (order string) {
			out, err := a.client("another").GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key("x"), ConsistentRead: aws.Bool(true)})
			require.NoError(t, err)
			for _, n := range out.Item["seen"].(*dtypes.AttributeValueMemberL).Value {
				order += n.(*dtypes.AttributeValueMemberN).Value
			}
			return order
		}
		assert.Equal(t, "01", seen())
		assert.Equal(t, []int{2, calls - 2}, []int{arrived.Hits(), frozen.Hits()})
		assert.Empty(t, answered)

		arrived.Remove()
		frozen.Remove()
		for range calls {
			assert.Equal(t, calls*time.Second, <-answered)
		}
		assert.Equal(t, "0123456789", seen())
		assert.Equal(t, "ok", a.put("c", "y", time.Second))
	})
}

// A fault whose time is over is as one removed, whatever it does.
func TestFaultForATime(t *testing.T) {
	inFaulty(t, func(t *testing.T, a faulty) {
		i := a.Inject(kcltest.Fault{Effect: kcltest.Break, Clients: []string{"c"}, For: 10 * time.Second})
		assert.Equal(t, "broken", a.put("c", "x", time.Second))
		time.Sleep(10*time.Second - time.Nanosecond)
		assert.Equal(t, "broken", a.put("c", "x", time.Second))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, "ok", a.put("c", "x", time.Second))
		i.Remove()
	})
}

// A fault hits the calls it means, and no others.
func TestFaultMeans(t *testing.T) {
	cases := []struct {
		name  string
		fault kcltest.Fault
		hit   bool
	}{
		{"all", kcltest.Fault{}, true},
		{"this client", kcltest.Fault{Clients: []string{"other", "c"}}, true},
		{"another client", kcltest.Fault{Clients: []string{"other"}}, false},
		{"this service", kcltest.Fault{Services: []string{"dynamodb"}}, true},
		{"the other service", kcltest.Fault{Services: []string{"kinesis"}}, false},
		{"another operation", kcltest.Fault{Operations: []string{"GetItem"}}, false},
		{"this table", kcltest.Fault{Resources: []string{"table"}}, true},
		{"another table", kcltest.Fault{Resources: []string{"else"}}, false},
		{"all at once", kcltest.Fault{Clients: []string{"c"}, Services: []string{"dynamodb"}, Operations: []string{"PutItem"}, Resources: []string{"table"}}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inFaulty(t, func(t *testing.T, a faulty) {
				c.fault.Effect = kcltest.Break
				a.Inject(c.fault)
				want := "ok"
				if c.hit {
					want = "broken"
				}
				assert.Equal(t, want, a.put("c", "x", time.Second))
			})
		})
	}
}

// Skip, Times and Chance choose among the calls; of several faults the first
// counts.
func TestFaultChooses(t *testing.T) {
	inFaulty(t, func(t *testing.T, a faulty) {
		outcomes := func(n int) (s string) {
			for range n {
				s += a.put("c", "x", time.Second)[:1]
			}
			return s
		}
		i := a.Inject(kcltest.Fault{Operations: []string{"PutItem"}, Effect: kcltest.Break, Skip: 2, Times: 3})
		assert.Equal(t, "oobbbooo", outcomes(8))
		assert.Equal(t, 3, i.Hits())
		i.Remove()

		first := a.Inject(kcltest.Fault{Effect: kcltest.Break, Operations: []string{"PutItem"}, Times: 1})
		second := a.Inject(kcltest.Fault{Effect: kcltest.Refuse, Code: "ThrottlingException", Operations: []string{"PutItem"}, Times: 1})
		assert.Equal(t, "bTo", outcomes(3))
		first.Remove()
		second.Remove()

		half := a.Inject(kcltest.Fault{Effect: kcltest.Break, Operations: []string{"PutItem"}, Chance: 0.5})
		s := outcomes(400)
		assert.InDelta(t, 200, half.Hits(), 50)
		half.Remove()
		b := newFaulty(t)
		for range 3 {
			b.Inject(kcltest.Fault{Operations: []string{"none"}}) // the same number of faults before
		}
		b.Inject(kcltest.Fault{Effect: kcltest.Break, Operations: []string{"PutItem"}, Chance: 0.5})
		var again string
		for range 400 {
			again += b.put("c", "x", time.Second)[:1]
			b.put("another", "x", time.Second)
		}
		assert.Equal(t, s, again, "the same seed chooses the same calls of a client, whatever others do")

		spared := a.Inject(kcltest.Fault{Effect: kcltest.Break, Except: []string{"c"}})
		assert.Equal(t, "ob", a.put("c", "x", time.Second)[:1]+a.put("another", "x", time.Second)[:1])
		spared.Remove()
	})
}

// Refusals have the form that each service gives them.
func TestRefusalsOfBothServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
		require.NoError(t, a.CreateStream("orders", 1))
		a.Inject(kcltest.Fault{Effect: kcltest.Refuse, Code: "ProvisionedThroughputExceededException"})
		_, err := kinesis.NewFromConfig(a.Config("c")).ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders")})
		var api smithy.APIError
		require.ErrorAs(t, err, &api)
		assert.Equal(t, "ProvisionedThroughputExceededException", api.ErrorCode())
		_, err = dynamodb.NewFromConfig(a.Config("c")).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key("x")})
		var exceeded *dtypes.ProvisionedThroughputExceededException
		require.ErrorAs(t, err, &exceeded)
	})
}
