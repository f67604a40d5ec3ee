package kinesis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// streamKey is where a stream's name holds.
type streamKey struct{ account, region, name string }

func (k streamKey) arn() string {
	return wire.Caller{Account: k.account, Region: k.region}.ARNPrefix("kinesis") + "stream/" + k.name
}

// parseARN reads a stream's ARN, whose pattern has been checked.
func parseARN(arn string) (streamKey, bool) {
	p := strings.SplitN(arn, ":", 6)
	if len(p) != 6 || p[2] != "kinesis" {
		return streamKey{}, false
	}
	name, ok := strings.CutPrefix(p[5], "stream/")
	return streamKey{account: p[4], region: p[3], name: name}, ok
}

// maxShardNumber is the last number a stream can give to a shard.
const maxShardNumber = 1<<31 - 1

func shardID(number uint32) string { return fmt.Sprintf("shardId-%012d", number) }

// parseShardID reads a shard id as loosely as the service does: what stands
// before a dash does not matter, nor does padding.
func parseShardID(id string) (uint32, bool) {
	if parts := strings.Split(id, "-"); len(parts) > 1 && parts[1] != "" {
		id = parts[1]
	}
	n, err := strconv.ParseUint(id, 10, 31)
	return uint32(n), err == nil
}

// streamRef is how most requests name their stream: by name, ARN or both.
type streamRef struct {
	StreamName *string
	StreamARN  *string
}

func (r *streamRef) check(v *violations) {
	v.text("streamName", r.StreamName, nameText)
	v.text("streamARN", r.StreamARN, arnText)
}

func (r *streamRef) stream() string {
	if r.StreamName != nil {
		return *r.StreamName
	}
	if r.StreamARN != nil {
		if key, ok := parseARN(*r.StreamARN); ok {
			return key.name
		}
	}
	return ""
}

// arnRef is how a few requests name their stream: by ARN only.
type arnRef struct{ StreamARN *string }

func (r *arnRef) check(v *violations) {
	if v.require("streamARN", r.StreamARN != nil) {
		v.text("streamARN", r.StreamARN, arnText)
	}
}

func (r *arnRef) ref() *streamRef { return &streamRef{StreamARN: r.StreamARN} }

func (r *arnRef) stream() string { return r.ref().stream() }

// resolve says which stream is meant. A bare name is looked up in the caller's
// own account.
func (r *streamRef) resolve(c wire.Caller) (streamKey, *wire.Error) {
	if r.StreamARN == nil {
		if r.StreamName == nil {
			return streamKey{}, invalidArgument("Either StreamName or StreamARN should be provided.") // text assumed
		}
		return streamKey{c.Account, c.Region, *r.StreamName}, nil
	}
	key, ok := parseARN(*r.StreamARN)
	if !ok {
		return key, invalidArgument("StreamARN %s is invalid.", *r.StreamARN) // text assumed
	}
	if r.StreamName != nil && *r.StreamName != key.name { // refused; code and text assumed
		return key, invalidArgument("StreamName %s and StreamARN %s do not name the same stream.", *r.StreamName, *r.StreamARN)
	}
	return key, nil
}
