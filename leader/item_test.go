package leader

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
)

// Every lock item that Java workers left decodes, and encodes back to itself.
// Those of 3.4 have no entityType (leader-and-client-version-migration#2), which
// an item of ours always has.
func TestJavaItems(t *testing.T) {
	seen := 0
	for _, j := range interchange.Items(t) {
		key := entity.LeaseTableKey
		if _, legacy := j.Attributes["key"]; legacy {
			key = "key"
		}
		if text(j.Attributes, key) != lockKey {
			continue
		}
		seen++
		t.Run(j.State, func(t *testing.T) {
			l, err := decodeLock(j.Attributes)
			require.NoError(t, err)
			assert.Equal(t, 2*time.Minute, l.duration)
			assert.Len(t, l.owner, 1)
			assert.False(t, l.released)
			j.Attributes[entity.Attribute] = entity.Leader.Attr()
			assert.Equal(t, j.Attributes, l.encode(key))
		})
	}
	assert.Equal(t, 11, seen)
}

// leader-and-client-version-migration#3
func TestEncode(t *testing.T) {
	l := lock{owner: "go", version: "v1", duration: 30 * time.Second, released: true}
	assert.Equal(t, map[string]types.AttributeValue{
		"leaseKey":            str("Leader"),
		"entityType":          str("LEADER"),
		"ownerName":           str("go"),
		"leaseDuration":       str("30000"),
		"recordVersionNumber": str("v1"),
	}, l.encode("leaseKey"))
}

func TestDecodeLock(t *testing.T) {
	valid := func() map[string]types.AttributeValue {
		return map[string]types.AttributeValue{
			"leaseKey": str("Leader"), "ownerName": str("java"), "leaseDuration": str("120000"), "recordVersionNumber": str("v1"),
		}
	}
	with := func(name string, v types.AttributeValue) map[string]types.AttributeValue {
		item := valid()
		item[name] = v
		if v == nil {
			delete(item, name)
		}
		return item
	}
	held := lock{owner: "java", version: "v1", duration: 2 * time.Minute}
	longest := lock{owner: "java", version: "v1", duration: maxDuration}
	for _, tc := range []struct {
		name string
		item map[string]types.AttributeValue
		want lock
		err  string
	}{
		{"without entityType: leader-and-client-version-migration#2", valid(), held, ""},
		{"with data and what a later version may add", with("data", &types.AttributeValueMemberB{Value: []byte{1}}), held, ""},
		{"released", with("isReleased", str("1")), lock{"java", "v1", 2 * time.Minute, true}, ""},
		{"released, by presence alone", with("isReleased", &types.AttributeValueMemberN{Value: "0"}), lock{"java", "v1", 2 * time.Minute, true}, ""},
		{"a duration of nothing", with("leaseDuration", str("0")), lock{"java", "v1", 0, false}, ""},
		{"as long as can be", with("leaseDuration", str("9223372036854775807")), longest, ""},
		{"no owner", with("ownerName", nil), lock{}, "ownerName is missing or no string"},
		{"no version", with("recordVersionNumber", nil), lock{}, "recordVersionNumber is missing or no string"},
		{"an empty version", with("recordVersionNumber", str("")), lock{}, "recordVersionNumber is empty"},
		{"no duration", with("leaseDuration", nil), lock{}, "leaseDuration is missing or no string"},
		{"a duration in Go's form", with("leaseDuration", str("2m0s")), lock{}, `leaseDuration is "2m0s", not a number of milliseconds`},
		{"a negative duration", with("leaseDuration", str("-1")), lock{}, `leaseDuration is "-1", not a number of milliseconds`},
		{"a duration that is a number", with("leaseDuration", &types.AttributeValueMemberN{Value: "120000"}), lock{}, "leaseDuration is missing or no string"},
		{"released but malformed", map[string]types.AttributeValue{"isReleased": str("1")}, lock{}, "ownerName is missing or no string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, err := decodeLock(tc.item)
			assert.Equal(t, tc.want, l)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrMalformedLock)
			assert.EqualError(t, err, "malformed lock item: "+tc.err)
		})
	}
}

func FuzzDecodeLock(f *testing.F) {
	f.Add("java", "120000", "v1", true)
	f.Add("", "2m0s", "", false)
	f.Add("x", "9223372036854775808", "v", false)
	f.Add("x", "9223372036854775", "v", false) // cut
	f.Fuzz(func(t *testing.T, owner, duration, version string, released bool) {
		item := map[string]types.AttributeValue{"ownerName": str(owner), "leaseDuration": str(duration), "recordVersionNumber": str(version)}
		if released {
			item["isReleased"] = str("1")
		}
		l, err := decodeLock(item)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformedLock)
			return
		}
		require.GreaterOrEqual(t, l.duration, time.Duration(0))
		require.LessOrEqual(t, l.duration, maxDuration)
		back, err := decodeLock(l.encode("leaseKey"))
		require.NoError(t, err)
		back.released = l.released
		require.Equal(t, l, back)
	})
}
