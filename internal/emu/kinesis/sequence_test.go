package kinesis

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unix(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.Unix()
}

// aws-kinesis#22
func TestSequenceVectors(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want sequence
	}{
		"record of 2015": {
			"49546986683135544286507457936321625675700192471156785154",
			sequence{created: unix(t, "2015-01-14T23:47:10Z"), index: 469, second: unix(t, "2015-01-14T23:49:46Z")},
		},
		"record of 2026": {
			"49674026002850188218576229259473476449429298564223254594",
			sequence{created: unix(t, "2026-04-27T19:47:17Z"), index: 21_689_507_110, second: unix(t, "2026-04-27T20:00:18Z"), shard: 3076},
		},
		"start of shard 0": {
			"49548859072970256769156879668947671610661756289899560962",
			sequence{created: unix(t, "2015-03-16T17:26:24Z"), second: unix(t, "2015-03-16T17:26:24Z")},
		},
		"its end, when it was split": {
			"49548859072981407141756144980517230543978492779512725506",
			sequence{created: unix(t, "2015-03-16T17:26:24Z"), index: endIndex, second: unix(t, "2015-03-16T17:32:56Z")},
		},
		"start of its first child": {
			"49548859213219643322715968606065803827347328807764754450",
			sequence{created: unix(t, "2015-03-16T17:32:57Z"), second: unix(t, "2015-03-16T17:32:57Z"), shard: 1},
		},
		"start of its second child": {
			"49548859213241944067914499229207339545619977169270734882",
			sequence{created: unix(t, "2015-03-16T17:32:57Z"), second: unix(t, "2015-03-16T17:32:57Z"), shard: 2},
		},
		"end of the first child, when both were merged": {
			"49548859213230793695315233917635362760664090379986927634",
			sequence{created: unix(t, "2015-03-16T17:32:57Z"), index: endIndex, second: unix(t, "2015-03-16T17:45:34Z"), shard: 1},
		},
		"start of the merged child": {
			"49548859483727682580892427312894066474572005964670566450",
			sequence{created: unix(t, "2015-03-16T17:45:35Z"), second: unix(t, "2015-03-16T17:45:35Z"), shard: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseSequence(c.text)
			require.True(t, ok)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.text, c.want.String())
		})
	}
}

// The numbers of initial shards lie one constant apart, up to the sixteenth.
func TestSequenceOfInitialShards(t *testing.T) {
	step, ok := new(big.Int).SetString("22300745198530623141535718272648361505980432", 10)
	require.True(t, ok)
	want, ok := new(big.Int).SetString(sequence{created: 1e9, second: 1e9}.String(), 10)
	require.True(t, ok)
	for i := range uint32(16) {
		assert.Equal(t, want.String(), sequence{created: 1e9, second: 1e9, shard: i}.String(), "shard %d", i)
		want.Add(want, step)
	}
}

func TestSequenceOrder(t *testing.T) {
	const start, child = 1_000_000_000, 1_000_000_101
	ascending := []sequence{
		{created: start, second: start},
		{created: start, index: 1, second: start},
		{created: start, index: 1, second: start + 1}, // a continuation of the record before
		{created: start, index: 2, second: start},
		{created: start, index: endIndex, second: start + 100},
		{created: child, second: child, shard: 1},
	}
	for i := 1; i < len(ascending); i++ {
		a, ok := new(big.Int).SetString(ascending[i-1].String(), 10)
		require.True(t, ok)
		b, ok := new(big.Int).SetString(ascending[i].String(), 10)
		require.True(t, ok)
		assert.Negative(t, a.Cmp(b), "%v before %v", ascending[i-1], ascending[i])
	}
}

func TestSequenceGarbage(t *testing.T) {
	good := sequence{created: 1e9, index: 7, second: 1e9 + 5, shard: 3}.encode()
	for name, u := range map[string]uint192{
		"other version":                     {good.hi, good.mid, good.lo ^ 1},
		"a bit in the zero byte":            {good.hi, good.mid | 1<<9, good.lo},
		"index beyond the end's":            {good.hi | 1<<15, good.mid, good.lo},
		"shard bits that disagree":          {good.hi ^ 1<<16, good.mid, good.lo},
		"other top":                         {good.hi ^ 1<<56, good.mid, good.lo},
		"longer than 186 bits":              {good.hi | 1<<58, good.mid, good.lo},
		"a shard number that is out of use": sequence{created: 1e9, shard: 1 << 31}.encode(),
	} {
		_, ok := parseSequence(u.String())
		assert.False(t, ok, name)
	}
	for _, s := range []string{"", "x", "-1", "+1", "01", " 1", "1 ", "1e5", strings.Repeat("9", 58), strings.Repeat("9", 129)} {
		_, ok := parseSequence(s)
		assert.False(t, ok, s)
	}
}

func FuzzSequence(f *testing.F) {
	f.Add("49546986683135544286507457936321625675700192471156785154")
	f.Add("0")
	f.Add("-1")
	f.Add(strings.Repeat("9", 58))
	f.Fuzz(func(t *testing.T, s string) {
		q, ok := parseSequence(s)
		if ok {
			require.Equal(t, s, q.String())
		}
		u, ok := parseUint192(s)
		want, _ := new(big.Int).SetString(s, 10)
		require.Equal(t, isDecimal(1000)(s) && want.BitLen() <= 192, ok, s)
		if ok {
			require.Equal(t, want.String(), u.String())
		}
	})
}
