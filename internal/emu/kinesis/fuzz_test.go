package kinesis

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// FuzzTokens decodes any bytes, as they are and with a checksum that fits: what
// decodes encodes to the same.
func FuzzTokens(f *testing.F) {
	key := streamKey{testAccount, testRegion, "s"}
	for _, s := range []string{
		iterator{key, 1, 2, 3, 4, 5, 6, 7}.String(),
		shardsToken{key, 1, 2, 3, shardFilter{atTimestamp, 4}}.String(),
		streamsToken{key, 1}.String(),
	} {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-4])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		summed := binary.BigEndian.AppendUint32(slices.Clone(b), crc32.ChecksumIEEE(b))
		for _, s := range []string{string(b), base64.StdEncoding.EncodeToString(b), base64.StdEncoding.EncodeToString(summed)} {
			if it, ok := parseIterator(s); ok {
				require.Equal(t, s, it.String())
			}
			if k, ok := parseShardsToken(s); ok {
				require.Equal(t, s, k.String())
			}
			if k, ok := parseStreamsToken(s); ok {
				require.Equal(t, s, k.String())
			}
		}
	})
}

// FuzzBodies sends any body to any operation: there is an answer in the call's
// encoding, a success or a refusal.
func FuzzBodies(f *testing.F) {
	names := slices.Sorted(maps.Keys(operations))
	for i := range names {
		f.Add(uint8(i), false, []byte(`{"StreamName":"s","ShardId":"0","ShardIteratorType":"LATEST","ShardCount":1,"PartitionKey":"a","Data":"eA==",`+
			`"Records":[{"PartitionKey":"a","Data":""}],"ShardToSplit":"0","NewStartingHashKey":"9","Tags":{"a":"b"},"TagKeys":["a"],`+
			`"RetentionPeriodHours":24,"TargetShardCount":2,"ScalingType":"UNIFORM_SCALING","Timestamp":1.5E9,"ShardFilter":{"Type":"AT_LATEST"}}`))
		f.Add(uint8(i), true, []byte("\xbf\x6aStreamName\x61s\x64Data\x41x\xff"))
	}
	f.Fuzz(func(t *testing.T, operation uint8, cbor bool, body []byte) {
		w := newWorld(t, Config{ShardQuota: 100})
		w.create("s", 2)
		if cbor {
			w.codec = wire.CBOR
		}
		name := names[int(operation)%len(names)]
		a := w.raw(name, body)
		if a.Err == nil {
			require.Equal(t, http.StatusOK, a.Status)
			return
		}
		require.Contains(t, []int{http.StatusBadRequest, http.StatusInternalServerError}, a.Status)
		require.NotEmpty(t, w.refusal(a).Code)
	})
}
