package shardsync

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// script is a client whose ListShards answers come from a function; its other
// calls are those of the embedded nil client.
type script struct {
	Client
	list  func(n int, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error)
	calls []*kinesis.ListShardsInput
	at    []time.Time
}

func (s *script) ListShards(ctx context.Context, in *kinesis.ListShardsInput, _ ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	s.calls = append(s.calls, in)
	s.at = append(s.at, time.Now())
	return s.list(len(s.calls), in)
}

func detector(c Client) *Detector {
	return NewDetector(DetectorConfig{Client: c, Stream: kcl.StreamIdentifier{Name: "s", ARN: "arn:aws:kinesis:us-east-1:123456789012:stream/s"}, Logger: slog.New(slog.DiscardHandler)})
}

func page(token string, ids ...string) *kinesis.ListShardsOutput {
	out := new(kinesis.ListShardsOutput)
	if token != "" {
		out.NextToken = aws.String(token)
	}
	for _, id := range ids {
		out.Shards = append(out.Shards, types.Shard{
			ShardId:             aws.String(id),
			HashKeyRange:        &types.HashKeyRange{StartingHashKey: aws.String("0"), EndingHashKey: aws.String("9")},
			SequenceNumberRange: &types.SequenceNumberRange{StartingSequenceNumber: aws.String("1")},
		})
	}
	return out
}

var errLimit = &types.LimitExceededException{Message: aws.String("slow down")}

// shard-sync#1: page two is named by its token alone.
func TestListPages(t *testing.T) {
	c := &script{list: func(n int, _ *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
		if n == 1 {
			return page("more", "a", "b"), nil
		}
		return page("", "c"), nil
	}}
	got, err := detector(c).List(t.Context(), filterFor(kcl.Latest))
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, "c", got[2].ID)
	require.Len(t, c.calls, 2)
	assert.Equal(t, &kinesis.ListShardsInput{
		StreamName: aws.String("s"), StreamARN: aws.String("arn:aws:kinesis:us-east-1:123456789012:stream/s"),
		ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	}, c.calls[0])
	assert.Equal(t, &kinesis.ListShardsInput{NextToken: aws.String("more")}, c.calls[1])
}

// shard-sync#2: a page is tried so often and no more, with pauses whose sum stays
// within what KCL would wait.
func TestListThrottledToTheEnd(t *testing.T) {
	for _, attempts := range []int{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			c := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return nil, errLimit }}
			d := NewDetector(DetectorConfig{Client: c, Stream: kcl.StreamIdentifier{Name: "s"}, Attempts: attempts, Logger: slog.New(slog.DiscardHandler)})
			start := time.Now()
			_, err := d.List(t.Context(), nil)
			var limited *types.LimitExceededException
			require.ErrorAs(t, err, &limited)
			want := 50
			if attempts > 0 {
				want = attempts
			}
			assert.Len(t, c.calls, want)
			assert.LessOrEqual(t, time.Since(start), time.Duration(want)*3*time.Second)
			for i := 1; i < len(c.at); i++ {
				pause := c.at[i].Sub(c.at[i-1])
				assert.Greater(t, pause, time.Duration(0), "no two calls without a pause")
				assert.LessOrEqual(t, pause, 3*time.Second, "twice the mean")
			}
		})
	}
}

// shard-sync#3: throttling passes; the count begins anew with each page.
func TestListThrottledForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &script{list: func(n int, _ *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			switch {
			case n == 50:
				return page("more", "a"), nil
			case n == 99:
				return page("", "b"), nil
			default:
				return nil, errLimit
			}
		}}
		got, err := detector(c).List(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, got, 2)
		assert.Len(t, c.calls, 99)
	})
}

// shard-sync#4,5,6: what ends a listing at once, and that each is told apart.
func TestListErrors(t *testing.T) {
	denied := errors.New("AccessDeniedException")
	cases := []struct {
		name string
		err  error
		want error
	}{
		{"being created", &types.ResourceInUseException{}, ErrStreamNotActive},
		{"no such stream", &types.ResourceNotFoundException{}, ErrStreamNotFound},
		{"a timeout", context.DeadlineExceeded, context.DeadlineExceeded},
		{"anything else", denied, denied},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return nil, c.err }}
			got, err := detector(s).List(t.Context(), nil)
			require.ErrorIs(t, err, c.want)
			assert.Nil(t, got)
			assert.ErrorContains(t, err, "stream s")
			assert.Len(t, s.calls, 1, "no second try")
		})
	}
}

// shard-sync#6: a context that ends during a pause ends the listing.
func TestListHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		c := &script{list: func(n int, _ *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			if n == 3 {
				cancel(stop)
			}
			return nil, errLimit
		}}
		_, err := detector(c).List(ctx, nil)
		require.ErrorIs(t, err, stop)
		assert.Len(t, c.calls, 3)
	})
}

// A call that never returns is given up after its timeout.
func TestListCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &hanging{}
		start := time.Now()
		_, err := detector(c).List(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

type hanging struct{ Client }

func (hanging) ListShards(ctx context.Context, _ *kinesis.ListShardsInput, _ ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// shard-sync#7: a client that answers nothing at all is asked no more often than
// a throttled one.
func TestListEmptyAnswers(t *testing.T) {
	c := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return nil, nil }}
	_, err := detector(c).List(t.Context(), nil)
	require.Error(t, err)
	assert.Len(t, c.calls, 50)
}

// A token that expired, or a shard that came twice because the pages are of
// different times, begins the listing anew; not for ever.
func TestListBeginsAnew(t *testing.T) {
	c := &script{list: func(n int, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
		switch n {
		case 1:
			return page("more", "a"), nil
		case 2:
			return nil, &types.ExpiredNextTokenException{}
		case 3:
			return page("more", "a"), nil
		case 4:
			return page("", "a"), nil
		default:
			return page("", "a", "b"), nil
		}
	}}
	got, err := detector(c).List(t.Context(), nil)
	require.NoError(t, err)
	assert.Len(t, got, 2)
	assert.NotNil(t, c.calls[2].StreamName)

	c = &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return page("", "a", "a"), nil }}
	_, err = detector(c).List(t.Context(), nil)
	require.ErrorContains(t, err, "listed twice")
	assert.Len(t, c.calls, 4)
}

// A shard's parents are whichever of the two fields names, sorted, each once.
func TestListParents(t *testing.T) {
	out := page("", "none", "split", "merge", "odd")
	out.Shards[1].ParentShardId = aws.String("a")
	out.Shards[2].ParentShardId, out.Shards[2].AdjacentParentShardId = aws.String("b"), aws.String("a")
	out.Shards[3].ParentShardId, out.Shards[3].AdjacentParentShardId = aws.String("a"), aws.String("a")
	c := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return out, nil }}
	got, err := detector(c).List(t.Context(), nil)
	require.NoError(t, err)
	for i, want := range [][]string{nil, {"a"}, {"a", "b"}, {"a"}} {
		assert.Equal(t, want, got[i].Parents, got[i].ID)
	}
	assert.Equal(t, Shard{ID: "split", Parents: []string{"a"}, HashRange: hashRange(t, "0", "9"), Start: "1"}, got[1])
}

// One listing runs at a time; who waits for its turn stops waiting with its
// context.
func TestListTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, hold := 0, make(chan struct{})
		c := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			begun++
			<-hold
			return page("", "a"), nil
		}}
		d := detector(c)
		done := make(chan error, 2)
		for range 2 {
			go func() { _, err := d.List(t.Context(), nil); done <- err }()
		}
		synctest.Wait()
		assert.Equal(t, 1, begun)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.List(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(hold)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		assert.Equal(t, 2, begun)
	})
}

// One shard whose hash range cannot be read is told of, and keeps no other from
// being listed; one without an id fails the listing.
func TestListStrangeShards(t *testing.T) {
	out := page("", "a", "b", "c")
	out.Shards[0].HashKeyRange.EndingHashKey = aws.String("many")
	out.Shards[1].HashKeyRange = nil
	out.Shards[2].HashKeyRange.EndingHashKey = aws.String("0")
	c := &script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return out, nil }}
	d := detector(c)
	log := new(strings.Builder)
	d.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	got, err := d.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for _, s := range got {
		assert.True(t, s.HashRange.IsZero(), s.ID)
		assert.Equal(t, "1", s.Start)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
	assert.Contains(t, log.String(), "shard a")

	out.Shards[0].ShardId = nil
	_, err = d.List(t.Context(), nil)
	require.ErrorContains(t, err, "no id")
}

// A closed shard names its children, after a while if not at once; an open one
// has none, and one that is gone says so.
func TestChildren(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		d := w.detector("c")
		start := time.Now()
		got, err := d.Children(t.Context(), "shardId-000000000000")
		require.NoError(t, err)
		assert.Empty(t, got)
		assert.Equal(t, (maxChildTries-1)*childPause, time.Since(start))
		assert.Equal(t, maxChildTries, w.aws.Count("GetRecords"))

		k := w.kinesis("test")
		for range maxChildTries + 1 { // all that came before is passed over
			_, err := k.PutRecord(t.Context(), &kinesis.PutRecordInput{
				StreamName: aws.String(stream), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("0"), Data: []byte("x"),
			})
			require.NoError(t, err)
		}
		w.split("shardId-000000000000", "100")
		got, err = d.Children(t.Context(), "shardId-000000000000")
		require.NoError(t, err)
		parents := []string{"shardId-000000000000"}
		assert.Equal(t, []Child{
			{ID: "shardId-000000000002", Parents: parents, HashRange: hashRange(t, "0", "99")},
			{ID: "shardId-000000000003", Parents: parents, HashRange: hashRange(t, "100", "170141183460469231731687303715884105727")},
		}, got)

		_, err = d.Children(t.Context(), "shardId-000000000099")
		var gone *types.ResourceNotFoundException
		require.ErrorAs(t, err, &gone)
		assert.ErrorContains(t, err, "shardId-000000000099")
	})
}

// lastAnswer is a client of a closed shard whose answers come in turn.
type lastAnswer struct {
	Client
	answers []*kinesis.GetRecordsOutput
	arns    []string
	read    []string // iterators
}

func (c *lastAnswer) GetShardIterator(_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	c.arns = append(c.arns, aws.ToString(in.StreamARN))
	return &kinesis.GetShardIteratorOutput{ShardIterator: aws.String("first")}, nil
}

func (c *lastAnswer) GetRecords(_ context.Context, in *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	c.arns = append(c.arns, aws.ToString(in.StreamARN))
	c.read = append(c.read, aws.ToString(in.ShardIterator))
	out := c.answers[0]
	c.answers = c.answers[1:]
	return out, nil
}

// Just after a shard's end the answer may lack the children; a child's hash range
// that cannot be read is not known. Every call carries the stream's ARN.
func TestChildrenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lastAnswer{answers: []*kinesis.GetRecordsOutput{
			{NextShardIterator: aws.String("second")},
			{ChildShards: []types.ChildShard{{ShardId: aws.String("child"), ParentShards: []string{"parent"}, HashKeyRange: &types.HashKeyRange{}}}},
		}}
		d := detector(c)
		got, err := d.Children(t.Context(), "parent")
		require.NoError(t, err)
		assert.Equal(t, []Child{{ID: "child", Parents: []string{"parent"}}}, got)
		assert.Equal(t, []string{d.cfg.Stream.ARN, d.cfg.Stream.ARN, d.cfg.Stream.ARN}, c.arns)
		assert.Equal(t, []string{"first", "second"}, c.read)
	})
}
