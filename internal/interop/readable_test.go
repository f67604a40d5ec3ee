package interop

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
)

const lockKey = "Leader"

// item is an item of the lease table.
type item = map[string]types.AttributeValue

// kind is what a reader of either side takes for an attribute.
type kind struct {
	types    string // letters and words as in DynamoDB's JSON, a reader's choice
	required bool
}

// kinds says, by entityType, which attributes an item has and of which types
// both sides read them. What is not listed is a stranger to one of them.
var kinds = map[string]map[string]kind{
	"LEASE": {
		"leaseKey": {"S", true}, "entityType": {"S", false},
		"leaseOwner": {"S", false}, "leaseCounter": {"N", true}, "ownerSwitchesSinceCheckpoint": {"N", true},
		"checkpoint": {"S", true}, "checkpointSubSequenceNumber": {"N", true},
		"pendingCheckpoint": {"S", false}, "pendingCheckpointSubSequenceNumber": {"N", false}, "pendingCheckpointState": {"B", false},
		"parentShardId": {"SS", false}, "childShardIds": {"SS", false},
		"startingHashKey": {"S", false}, "endingHashKey": {"S", false},
		"throughputKBps": {"N", false}, "checkpointOwner": {"S", false}, "streamName": {"S", false}, "shardId": {"S", false},
	},
	"LEADER": {
		"leaseKey": {"S", true}, "entityType": {"S", true},
		"ownerName": {"S", true}, "leaseDuration": {"S", true}, "recordVersionNumber": {"S", true}, "isReleased": {"S", false},
	},
	"CLIENT_VERSION_MIGRATION": {
		"leaseKey": {"S", true}, "entityType": {"S", true}, "cv": {"S", true}, "mb": {"S", true}, "mts": {"N", true}, "h": {"L", false},
	},
	"TABLE_MIGRATION": {
		"leaseKey": {"S", true}, "entityType": {"S", true}, "tm": {"S", true}, "mb": {"S", true}, "mts": {"N", true}, "h": {"L", false},
	},
	"WORKER_METRIC_STATS": {
		"leaseKey": {"S", true}, "entityType": {"S", true},
		"lut": {"N", true}, "sts": {"M", true}, "opr": {"M", true}, "sup": {"N", false}, "slu": {"N", false},
	},
}

var (
	digits   = regexp.MustCompile(`^[0-9]+$`)
	sequence = regexp.MustCompile(`^([0-9]+|TRIM_HORIZON|LATEST|AT_TIMESTAMP|SHARD_END)$`)
)

// unreadable says what of an item one of the sides could not read.
func unreadable(it item) (faults []string) {
	name := text(it["entityType"])
	if it["entityType"] == nil {
		name = "LEASE"
	}
	known := kinds[name]
	if known == nil {
		return []string{fmt.Sprintf("unknown entityType %q", name)}
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, attr := range slices.Sorted(maps.Keys(known)) {
		switch v, k := it[attr], known[attr]; {
		case v == nil && k.required:
			fault("%s is missing", attr)
		case v != nil && typeOf(v) != k.types:
			fault("%s is of type %s, not %s", attr, typeOf(v), k.types)
		case typeOf(v) == "S" && text(v) == "":
			fault("%s is empty", attr)
		}
	}
	for _, attr := range slices.Sorted(maps.Keys(it)) {
		if _, ok := known[attr]; !ok {
			fault("%s is a stranger in a %s", attr, name)
		}
	}
	switch name {
	case "LEASE":
		for _, attr := range []string{"leaseCounter", "ownerSwitchesSinceCheckpoint", "checkpointSubSequenceNumber", "pendingCheckpointSubSequenceNumber"} {
			if it[attr] != nil && !digits.MatchString(text(it[attr])) {
				fault("%s is %q", attr, text(it[attr]))
			}
		}
		for _, attr := range []string{"checkpoint", "pendingCheckpoint"} {
			if it[attr] != nil && !sequence.MatchString(text(it[attr])) {
				fault("%s is %q", attr, text(it[attr]))
			}
		}
		if (it["startingHashKey"] == nil) != (it["endingHashKey"] == nil) {
			fault("hash range with one end")
		}
		// Java refuses a range of one key.
		start, ok := new(big.Int).SetString(text(it["startingHashKey"]), 10)
		end, ok2 := new(big.Int).SetString(text(it["endingHashKey"]), 10)
		if it["startingHashKey"] != nil && (!ok || !ok2 || start.Cmp(end) >= 0) {
			fault("hash range %s to %s", text(it["startingHashKey"]), text(it["endingHashKey"]))
		}
		if it["checkpointOwner"] != nil && (it["leaseOwner"] == nil || text(it["leaseOwner"]) == text(it["checkpointOwner"])) {
			fault("hand-off from %q to %q", text(it["checkpointOwner"]), text(it["leaseOwner"]))
		}
	case "LEADER":
		if !digits.MatchString(text(it["leaseDuration"])) {
			fault("leaseDuration is %q, not whole milliseconds", text(it["leaseDuration"]))
		}
	case "WORKER_METRIC_STATS":
		for _, attr := range []string{"sts", "opr"} {
			m, _ := it[attr].(*types.AttributeValueMemberM)
			if m == nil {
				continue
			}
			for metric, list := range m.Value {
				l, ok := list.(*types.AttributeValueMemberL)
				if !ok || len(l.Value) == 0 {
					fault("%s of %s is no list, or an empty one", attr, metric)
					continue
				}
				for _, n := range l.Value {
					if typeOf(n) != "N" {
						fault("%s of %s holds a %s", attr, metric, typeOf(n))
					}
				}
			}
		}
	}
	return faults
}

// text returns a string or a number, empty for anything else.
func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

func number(v types.AttributeValue) int64 {
	n, _ := strconv.ParseInt(text(v), 10, 64)
	return n
}

func typeOf(v types.AttributeValue) string {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return "S"
	case *types.AttributeValueMemberN:
		return "N"
	case *types.AttributeValueMemberB:
		return "B"
	case *types.AttributeValueMemberSS:
		return "SS"
	case *types.AttributeValueMemberL:
		return "L"
	case *types.AttributeValueMemberM:
		return "M"
	case nil:
		return ""
	}
	return fmt.Sprintf("%T", v)
}

// What Java workers of the newest release left in a lease table can be read.
func TestRecordedItemsAreReadable(t *testing.T) {
	n := 0
	for _, it := range interchange.Items(t) {
		if it.Attributes["leaseKey"] == nil || it.Attributes["leaseCounter"] == nil && it.Attributes["entityType"] == nil {
			continue // of a table that 3.5 does not use
		}
		if text(it.Attributes["entityType"]) == "STREAM" {
			continue
		}
		n++
		assert.Empty(t, unreadable(it.Attributes), "%s %s", it.State, text(it.Attributes["leaseKey"]))
	}
	require.Greater(t, n, 50)
}

func TestUnreadable(t *testing.T) {
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	n := func(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }
	lease := func(change func(item)) item {
		it := item{
			"leaseKey": s("shardId-0"), "entityType": s("LEASE"), "leaseCounter": n("1"), "ownerSwitchesSinceCheckpoint": n("0"),
			"checkpoint": s("TRIM_HORIZON"), "checkpointSubSequenceNumber": n("0"), "startingHashKey": s("0"), "endingHashKey": s("9"),
			"leaseOwner": s("a"),
		}
		change(it)
		return it
	}
	lock := item{"leaseKey": s("Leader"), "entityType": s("LEADER"), "ownerName": s("a"), "leaseDuration": s("2m0s"), "recordVersionNumber": s("v")}
	for want, it := range map[string]item{
		"":                                                lease(func(item) {}),
		"leaseCounter is missing":                         lease(func(it item) { delete(it, "leaseCounter") }),
		"leaseOwner is of type N, not S":                  lease(func(it item) { it["leaseOwner"] = n("1") }),
		"leaseOwner is empty":                             lease(func(it item) { it["leaseOwner"] = s("") }),
		"newcomer is a stranger in a LEASE":               lease(func(it item) { it["newcomer"] = s("x") }),
		`leaseCounter is "1.5"`:                           lease(func(it item) { it["leaseCounter"] = n("1.5") }),
		`checkpoint is "HERE"`:                            lease(func(it item) { it["checkpoint"] = s("HERE") }),
		"hash range with one end":                         lease(func(it item) { delete(it, "startingHashKey") }),
		"hash range 9 to 9":                               lease(func(it item) { it["startingHashKey"] = s("9") }),
		`hand-off from "a" to "a"`:                        lease(func(it item) { it["checkpointOwner"] = s("a") }),
		`unknown entityType "NEW"`:                        lease(func(it item) { it["entityType"] = s("NEW") }),
		`leaseDuration is "2m0s", not whole milliseconds`: lock,
		"sts of C is no list, or an empty one": {"leaseKey": s("a"), "entityType": s("WORKER_METRIC_STATS"), "lut": n("1"),
			"opr": &types.AttributeValueMemberM{}, "sts": &types.AttributeValueMemberM{Value: item{"C": &types.AttributeValueMemberL{}}}},
		"sts of C holds a S": {"leaseKey": s("a"), "entityType": s("WORKER_METRIC_STATS"), "lut": n("1"),
			"opr": &types.AttributeValueMemberM{}, "sts": &types.AttributeValueMemberM{Value: item{"C": &types.AttributeValueMemberL{Value: []types.AttributeValue{s("1")}}}}},
	} {
		if want == "" {
			assert.Empty(t, unreadable(it))
			continue
		}
		assert.Contains(t, unreadable(it), want)
	}
}
