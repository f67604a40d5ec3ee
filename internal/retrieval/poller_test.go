package retrieval

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/metrics"
)

func TestReadsAShardToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(5, 3, 10), closed: true, children: split()}
		start := time.Now()
		p := open(t, Config{}, s)
		assert.Equal(t, upTo(15), drain(t, p))
		assert.Equal(t, 4*defaultIdleTime, time.Since(start), "one call each idle time, the first at once")
		assert.Equal(t, []string{"TRIM_HORIZON"}, s.starts())
	})
}

// consumption#65
func TestNothingFollowsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(1, 1, 1), closed: true, children: split()}
		p := open(t, Config{}, s)
		b := next(t, p)
		require.True(t, b.End)
		assert.Len(t, b.Children, 2)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err := p.Next(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, s.getTimes(), 1)
	})
}

// consumption#52: what is fetched ahead is bounded by batches, by records and by
// bytes, whichever is reached first; one response may exceed the bound; a full
// queue goes on once a batch is taken.
func TestPrefetchBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  Config
		size int
		data int
		want int
	}{
		"batches":                          {Config{}, 1, 1, 4},
		"batches, set":                     {Config{MaxPending: 2}, 1, 1, 2},
		"records":                          {Config{MaxRecordCount: 5}, 2, 1, 3},
		"bytes":                            {Config{MaxBytes: 100}, 1, 60, 2},
		"one response larger than allowed": {Config{MaxBytes: 100}, 1, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shardServer{pages: pagesOf(12, tc.size, tc.data), closed: true, children: split()}
				p := open(t, tc.cfg, s)
				time.Sleep(time.Minute)
				assert.Len(t, s.getTimes(), tc.want, "calls while nothing is taken")
				next(t, p).Release()
				time.Sleep(time.Minute)
				assert.Len(t, s.getTimes(), tc.want+1, "calls once one was taken")
				assert.Equal(t, upTo(12 * tc.size)[tc.size:], drain(t, p))
			})
		})
	}
}

// consumption#53
func TestNoPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(3, 1, 1), closed: true, children: split(),
			getFault: onCall(map[int]error{1: errors.New("connection reset")})}
		p := open(t, Config{MaxPending: NoPrefetch}, s)
		time.Sleep(time.Minute)
		assert.Empty(t, s.getTimes(), "calls before anything is asked for")
		assert.Equal(t, []string{"1"}, seqs(next(t, p)))
		time.Sleep(time.Minute)
		assert.Len(t, s.getTimes(), 1, "calls while the batch is processed")
		assert.Equal(t, []string{"2"}, seqs(next(t, p)), "a failed call is repeated without being asked for again")
		assert.Len(t, s.getTimes(), 3)
	})
}

// consumption#54,51: the error table. Never are two calls closer than the idle
// time; a result that is not accepted leaves the iterator where it was.
func TestFailuresOfGetRecords(t *testing.T) {
	reset := errors.New("connection reset")
	for name, tc := range map[string]struct {
		faults         map[int]error
		iteratorFaults map[int]error
		wantIterators  []string // of GetRecords
		wantStarts     []string // of GetShardIterator
	}{
		"expired after a record": {
			faults:        map[int]error{1: apiError("ExpiredIteratorException")},
			wantIterators: []string{"0", "1", "1"}, wantStarts: []string{"TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER 1"},
		},
		"refused after a record": {
			faults:        map[int]error{1: apiError("InvalidArgumentException")},
			wantIterators: []string{"0", "1", "1"}, wantStarts: []string{"TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER 1"},
		},
		"expired before any record": {
			faults:        map[int]error{0: apiError("ExpiredIteratorException")},
			wantIterators: []string{"0", "0", "1"}, wantStarts: []string{"TRIM_HORIZON", "TRIM_HORIZON"},
		},
		"the new iterator fails too": {
			faults:         map[int]error{1: apiError("ExpiredIteratorException")},
			iteratorFaults: map[int]error{1: reset, 2: apiError("ProvisionedThroughputExceededException")},
			wantIterators:  []string{"0", "1", "1"},
			wantStarts:     []string{"TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER 1", "AFTER_SEQUENCE_NUMBER 1", "AFTER_SEQUENCE_NUMBER 1"},
		},
		"throttled twice": {
			faults:        map[int]error{1: apiError("ProvisionedThroughputExceededException"), 2: apiError("ProvisionedThroughputExceededException")},
			wantIterators: []string{"0", "1", "1", "1"}, wantStarts: []string{"TRIM_HORIZON"},
		},
		"other error": {
			faults:        map[int]error{0: reset, 2: apiError("InternalFailure")},
			wantIterators: []string{"0", "0", "1", "1"}, wantStarts: []string{"TRIM_HORIZON"},
		},
		"no answer": {
			faults:        map[int]error{1: errHang},
			wantIterators: []string{"0", "1", "1"}, wantStarts: []string{"TRIM_HORIZON"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shardServer{pages: pagesOf(2, 1, 1), closed: true, children: split(),
					getFault: onCall(tc.faults), iteratorFault: onCall(tc.iteratorFaults)}
				assert.Equal(t, upTo(2), drain(t, open(t, Config{}, s)))
				assert.Equal(t, tc.wantIterators, s.getIterators())
				assert.Equal(t, tc.wantStarts, s.starts())
				at := s.getTimes()
				for i := 1; i < len(at); i++ {
					assert.GreaterOrEqual(t, at[i].Sub(at[i-1]), defaultIdleTime, "calls %d and %d", i-1, i)
				}
			})
		})
	}
}

// consumption#55: an answer that cannot be is not delivered; the same iterator
// is asked again.
func TestInvalidAnswersAreRepeated(t *testing.T) {
	for name, mangle := range map[string]func(*kinesis.GetRecordsOutput){
		"end without children": func(out *kinesis.GetRecordsOutput) { out.NextShardIterator, out.ChildShards = nil, nil },
		"children without end": func(out *kinesis.GetRecordsOutput) { out.ChildShards = split() },
		"children without parent": func(out *kinesis.GetRecordsOutput) {
			out.NextShardIterator, out.ChildShards = nil, []types.ChildShard{{ShardId: aws.String("c")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shardServer{pages: pagesOf(3, 1, 1), closed: true, children: split()}
				s.mangle = func(n int, out *kinesis.GetRecordsOutput) {
					if n == 1 {
						mangle(out)
					}
				}
				assert.Equal(t, upTo(3), drain(t, open(t, Config{}, s)))
				assert.Equal(t, []string{"0", "1", "1", "2"}, s.getIterators())
			})
		})
	}
}

// consumption#24,25: calls that hang, 60 s and more in all, and ones that fail,
// between a hundred batches: each batch comes once, in order.
func TestStallsLoseAndRepeatNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(100, 2, 1), closed: true, children: split()}
		s.getFault = func(n int) error {
			switch {
			case n%7 < 3:
				return errHang
			case n%11 == 5:
				return apiError("ExpiredIteratorException")
			case n%13 == 6:
				return errors.New("connection reset")
			}
			return nil
		}
		assert.Equal(t, upTo(200), drain(t, open(t, Config{}, s)))
	})
}

// consumption#56: closing ends a call under way; nobody waits for its timeout,
// and it is no error.
func TestCloseDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &levels{}
		s := &shardServer{pages: pagesOf(1, 1, 1), getFault: func(int) error { return errHang }}
		p := open(t, Config{Logger: slog.New(log)}, s)
		time.Sleep(time.Second)
		start := time.Now()
		p.Close()
		assert.Zero(t, time.Since(start))
		assert.Empty(t, log.lines)
		time.Sleep(time.Hour)
		assert.Len(t, s.getTimes(), 1, "no call after Close")
		p.Close()
	})
}

// A call that gets no answer is given up after the request timeout.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(1, 1, 1), getFault: onCall(map[int]error{0: errHang})}
		p := open(t, Config{}, s)
		next(t, p)
		at := s.getTimes()
		assert.Equal(t, defaultRequestTimeout+defaultIdleTime, at[1].Sub(at[0]))
	})
}

// consumption#26
func TestTimeoutsAreIgnoredAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &levels{}
		s := &shardServer{pages: pagesOf(3, 1, 1), closed: true, children: split()}
		s.getFault = onCall(map[int]error{
			0: errHang, 1: errHang, 2: errHang, // the third is too many
			4: errHang, 5: errHang, // a batch came between
			7: errors.New("connection reset"), // never ignored
		})
		drain(t, open(t, Config{TimeoutsToIgnore: 2, Logger: slog.New(log)}, s))
		timeout := " " + kindTimeout.String()
		assert.Equal(t, []string{
			"DEBUG" + timeout, "DEBUG" + timeout, "WARN" + timeout,
			"DEBUG" + timeout, "DEBUG" + timeout,
			"WARN " + kindOther.String(),
		}, log.lines)
	})
}

// A LATEST iterator that is lost before anything was read must not be replaced
// by a newer LATEST: what arrived in between would never be read.
func TestLatestKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().UTC().Format(time.RFC3339)
		s := &shardServer{pages: pagesOf(1, 1, 1), closed: true, children: split(),
			getFault: onCall(map[int]error{0: apiError("ExpiredIteratorException"), 1: apiError("ExpiredIteratorException")})}
		p := NewReader(Config{Client: s}).Open(context.Background(), shardAt(kcl.AtLatest))
		t.Cleanup(p.Close)
		assert.Equal(t, upTo(1), drain(t, p))
		assert.Equal(t, []string{"LATEST", "AT_TIMESTAMP " + began, "AT_TIMESTAMP " + began}, s.starts())
	})
}

// A checkpoint may lie in the middle of an aggregate, whose Kinesis record must
// be read again even if the first iterator is lost.
func TestCheckpointIsReadAtUntilSomethingWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shardServer{pages: pagesOf(2, 1, 1), closed: true, children: split(),
			getFault: onCall(map[int]error{0: apiError("ExpiredIteratorException"), 2: apiError("ExpiredIteratorException")})}
		p := NewReader(Config{Client: s}).Open(context.Background(), shardAt(kcl.Position{SequenceNumber: "1", SubSequenceNumber: 1}))
		t.Cleanup(p.Close)
		assert.Equal(t, upTo(2), drain(t, p))
		assert.Equal(t, []string{"AT_SEQUENCE_NUMBER 1", "AT_SEQUENCE_NUMBER 1", "AFTER_SEQUENCE_NUMBER 1"}, s.starts())
	})
}

func TestStreamIsNamedInEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const arn = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
		s := &recorder{shardServer: shardServer{pages: pagesOf(1, 1, 1), closed: true, children: split()}}
		for _, stream := range []kcl.StreamIdentifier{{Name: "orders"}, {Name: "orders", ARN: arn}} {
			shard := shardAt(kcl.AtTrimHorizon)
			shard.Stream = stream
			p := NewReader(Config{Client: s, MaxRecords: 17}).Open(context.Background(), shard)
			next(t, p)
			p.Close()
			assert.Equal(t, "orders", aws.ToString(s.iterator.StreamName))
			assert.Equal(t, shardID, aws.ToString(s.iterator.ShardId))
			assert.Equal(t, stream.ARN, aws.ToString(s.iterator.StreamARN))
			assert.Equal(t, stream.ARN, aws.ToString(s.get.StreamARN))
			assert.EqualValues(t, 17, *s.get.Limit)
			assert.Nil(t, s.get.StreamId)
		}
	})
}

// recorder keeps the last inputs.
type recorder struct {
	shardServer
	iterator *kinesis.GetShardIteratorInput
	get      *kinesis.GetRecordsInput
}

func (r *recorder) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, o ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	r.iterator = in
	return r.shardServer.GetShardIterator(ctx, in, o...)
}

func (r *recorder) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, o ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	r.get = in
	return r.shardServer.GetRecords(ctx, in, o...)
}

func TestStatusSaysWhyNothingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := apiError("ProvisionedThroughputExceededException")
		s := &shardServer{pages: pagesOf(1, 1, 1), getFault: onCall(map[int]error{0: throttled, 1: throttled})}
		start := time.Now()
		p := open(t, Config{}, s)
		synctest.Wait()
		assert.Equal(t, Status{Waiting: "throttled by Kinesis", Since: start, Failures: 1, Err: throttled}, p.Status())
		time.Sleep(2 * time.Second)
		assert.Equal(t, Status{Waiting: "throttled by Kinesis", Since: start, Failures: 2, Err: throttled}, p.Status())
		b := next(t, p)
		assert.Equal(t, Status{Fetched: b.ReceivedAt}, p.Status())
	})
}

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &testbed.Figures{}
		s := &shardServer{pages: pagesOf(1, 1, 1), closed: true, children: split(),
			getFault: onCall(map[int]error{0: apiError("ExpiredIteratorException")})}
		drain(t, open(t, Config{Metrics: rec}, s))
		var got []string
		for _, m := range rec.All() {
			if m.Unit == metrics.Count {
				require.Equal(t, "ProcessTask", m.Operation)
				name := m.Name
				if m.Value == 0 {
					name += "=0"
				}
				for _, d := range m.Dimensions {
					name += " " + d.Name
				}
				got = append(got, name)
			}
		}
		assert.Equal(t, []string{
			"KinesisDataFetcher.getShardIterator.Success ShardId",
			"KinesisDataFetcher.getRecords.Success=0 ShardId",
			"ExpiredIterator",
			"KinesisDataFetcher.getShardIterator.Success ShardId",
			"KinesisDataFetcher.getRecords.Success ShardId",
		}, got)
	})
}
