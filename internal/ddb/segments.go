package ddb

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const (
	maxSegments      = 32
	fallbackSegments = 10 // when the table's size is not known
	segmentsTTL      = 2 * time.Hour
	describeTimeout  = 60 * time.Second
)

// Segments says into how many segments a scan of a table is to be split: a
// fixed number, or one for each 0.2 GiB, from 1 to 32, by the size that
// DescribeTable told within the last 2 hours. It is safe for concurrent use.
type Segments struct {
	client *dynamodb.Client
	table  string
	fixed  int

	mu    sync.Mutex // guards what follows
	last  int        // 0: not known yet
	until time.Time  // last need not be asked for again before
}

// NewSegments does no I/O. A fixed number above 0 is used as it is.
func NewSegments(client *dynamodb.Client, table string, fixed int) *Segments {
	return &Segments{client: client, table: table, fixed: fixed}
}

// Count returns the number of segments. It may call DescribeTable; if that
// fails, it answers what it knew last, or 10, and asks again the next time.
func (s *Segments) Count(ctx context.Context) int {
	if s.fixed > 0 {
		return s.fixed
	}
	s.mu.Lock()
	last, until := s.last, s.until
	s.mu.Unlock()
	if time.Now().Before(until) {
		return last
	}
	n := fallbackSegments
	out, err := Call(ctx, describeTimeout, "describe table "+s.table, func(ctx context.Context) (*dynamodb.DescribeTableOutput, error) {
		return s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	})
	switch {
	case err == nil:
		n = segmentsFor(aws.ToInt64(out.Table.TableSizeBytes))
	case !notFound(err):
		if last > 0 {
			return last
		}
		return fallbackSegments
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.until = n, time.Now().Add(segmentsTTL)
	return n
}

// segmentsFor returns one segment for each 0.2 GiB begun, 1 to 32.
func segmentsFor(bytes int64) int {
	const gib = 1 << 30
	if bytes >= maxSegments*gib/5 {
		return maxSegments
	}
	return int(max(1, (bytes*5+gib-1)/gib))
}
