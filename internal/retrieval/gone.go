package retrieval

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl"
)

// maxListPages bounds the look for one shard; 1000 pages hold a million shards.
const maxListPages = 1000

// gone asks whether a shard that the service did not find is really no more.
// The same answer comes for a stream that is being created, and for another
// account's stream that is named without its ARN; to end the shard then would
// skip its records for good.
//
//	stream found, neither being created nor deleted
//	    shard listed          false
//	    shard not listed      true
//	stream found, else        error: it passes
//	stream not found
//	    ARN known, or read before by this worker   true
//	    else                                       error: perhaps it was never there
//	may not be described      as the listing says
func (r *Reader) gone(ctx context.Context, stream kcl.StreamIdentifier, shardID string) (bool, error) {
	out, err := r.describe(ctx, stream)
	switch {
	case err == nil:
		if s := out.StreamDescriptionSummary; s != nil &&
			(s.StreamStatus == types.StreamStatusCreating || s.StreamStatus == types.StreamStatusDeleting) {
			return false, fmt.Errorf("stream %s is %s", stream.Name, s.StreamStatus)
		}
	case classify(err) == kindNotFound:
		return r.streamGone(stream, err)
	case errorCode(err) == "AccessDeniedException":
	default:
		return false, fmt.Errorf("describe stream %s: %w", stream.Name, err)
	}
	listed, err := r.listed(ctx, stream, shardID)
	if err != nil && classify(err) == kindNotFound {
		return r.streamGone(stream, err)
	}
	if err != nil {
		return false, fmt.Errorf("look for shard %s of stream %s: %w", shardID, stream.Name, err)
	}
	return !listed, nil
}

func (r *Reader) streamGone(stream kcl.StreamIdentifier, notFound error) (bool, error) {
	if _, read := r.found.Load(stream.String()); read || stream.ARN != "" {
		return true, nil
	}
	return false, fmt.Errorf("stream %s was never found; a stream of another account must be given by its ARN: %w", stream.Name, notFound)
}

func (r *Reader) describe(ctx context.Context, stream kcl.StreamIdentifier) (*kinesis.DescribeStreamSummaryOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.RequestTimeout)
	defer cancel()
	return r.cfg.Client.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{
		StreamName: aws.String(stream.Name), StreamARN: optional(stream.ARN),
	})
}

// listed reports whether the shard is among the stream's, open or closed.
// Listings come in the order of shard ids, so one page that begins behind the
// id before answers; if one should not, the next pages do.
func (r *Reader) listed(ctx context.Context, stream kcl.StreamIdentifier, shardID string) (bool, error) {
	in := &kinesis.ListShardsInput{
		StreamName: aws.String(stream.Name), StreamARN: optional(stream.ARN),
		ExclusiveStartShardId: optional(shardBefore(shardID)),
	}
	for range maxListPages {
		out, err := r.listPage(ctx, in)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(out.Shards, func(s types.Shard) bool { return aws.ToString(s.ShardId) == shardID }) {
			return true, nil
		}
		past := slices.ContainsFunc(out.Shards, func(s types.Shard) bool { return aws.ToString(s.ShardId) > shardID })
		if past || out.NextToken == nil {
			return false, nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	return false, fmt.Errorf("more than %d pages of shards", maxListPages)
}

func (r *Reader) listPage(ctx context.Context, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.RequestTimeout)
	defer cancel()
	return r.cfg.Client.ListShards(ctx, in)
}

const shardIDPrefix = "shardId-"

// shardBefore returns the id whose number is one less, or "" if there is none
// or the id has another form.
func shardBefore(id string) string {
	digits, ok := strings.CutPrefix(id, shardIDPrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("%s%0*d", shardIDPrefix, len(digits), n-1)
}

// optional returns nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
