package retrieval

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// consumption#40: "not found" ends a shard, without children, once the service
// confirms that it or its stream is gone; in all other cases reading goes on.
func TestNotFound(t *testing.T) {
	notFound, denied := apiError("ResourceNotFoundException"), apiError("AccessDeniedException")
	status := func(s types.StreamStatus, err error) func() (types.StreamStatus, error) {
		return func() (types.StreamStatus, error) { return s, err }
	}
	others := []string{"shardId-000000000001", "shardId-000000000002", "shardId-000000000006", "shardId-000000000010"}
	all := append([]string{"shardId-000000000001", "shardId-000000000006"}, shardID, "shardId-000000000010")
	for name, tc := range map[string]struct {
		describe func() (types.StreamStatus, error)
		shards   []string
		listErr  error
		arn      bool // the stream's ARN is known
		read     bool // it was read before
		want     bool
	}{
		"stream deleted, read before":              {status("", notFound), nil, nil, false, true, true},
		"stream deleted, ARN known":                {status("", notFound), nil, nil, true, false, true},
		"never found, perhaps another account's":   {status("", notFound), nil, nil, false, false, false},
		"stream being created":                     {status(types.StreamStatusCreating, nil), nil, nil, true, true, false},
		"stream being deleted":                     {status(types.StreamStatusDeleting, nil), nil, nil, true, true, false},
		"shard expired":                            {nil, others, nil, false, false, true},
		"the stream's last shard expired":          {nil, others[:3], nil, false, false, true},
		"no shards":                                {nil, nil, nil, false, false, true},
		"shard still listed":                       {nil, all, nil, true, true, false},
		"may not be described, shard listed":       {status("", denied), all, nil, true, true, false},
		"may not be described, shard gone":         {status("", denied), others, nil, true, true, true},
		"may not be described, stream deleted":     {status("", denied), nil, notFound, true, false, true},
		"may not be described, stream never found": {status("", denied), nil, notFound, false, false, false},
		"description throttled":                    {status("", apiError("LimitExceededException")), nil, nil, true, true, false},
		"listing throttled":                        {nil, others, apiError("LimitExceededException"), true, true, false},
	} {
		for _, call := range []string{"GetShardIterator", "GetRecords"} {
			t.Run(name+", "+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &shardServer{pages: pagesOf(1, 1, 1), closed: true, children: split(),
						describe: tc.describe, shards: tc.shards, listErr: tc.listErr}
					fault := onCall(map[int]error{0: notFound})
					if call == "GetRecords" {
						s.getFault = fault
					} else {
						s.iteratorFault = fault
					}
					r := NewReader(Config{Client: s})
					shard := shardAt(kcl.AtTrimHorizon)
					if tc.arn {
						shard.Stream.ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
					}
					if tc.read {
						r.found.Store("orders", struct{}{})
					}
					p := r.Open(context.Background(), shard)
					t.Cleanup(p.Close)
					b := next(t, p)
					require.True(t, b.End)
					if tc.want {
						assert.Empty(t, b.Records)
						assert.Empty(t, b.Children)
						return
					}
					assert.Equal(t, upTo(1), seqs(b), "read after all")
					assert.Len(t, b.Children, 2)
				})
			})
		}
	}
}

// A stream that worked and is then deleted, without its ARN.
func TestStreamDeletedWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notFound := apiError("ResourceNotFoundException")
		s := &shardServer{pages: pagesOf(1, 1, 1)}
		s.getFault = onCall(map[int]error{1: notFound})
		s.describe = func() (types.StreamStatus, error) { return "", notFound }
		p := open(t, Config{}, s)
		assert.False(t, next(t, p).End)
		assert.True(t, next(t, p).End)
	})
}

func TestNotFoundIsToldWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notFound := apiError("ResourceNotFoundException")
		s := &shardServer{iteratorFault: func(int) error { return notFound },
			describe: func() (types.StreamStatus, error) { return "", notFound }}
		p := open(t, Config{}, s)
		time.Sleep(time.Hour)
		st := p.Status()
		assert.Equal(t, "not found by Kinesis", st.Waiting)
		assert.ErrorContains(t, st.Err, "a stream of another account must be given by its ARN")
		assert.LessOrEqual(t, s.confirms, 400, "the confirming calls back off too")
	})
}
