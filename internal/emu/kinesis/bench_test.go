package kinesis

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

func benchWorld(b *testing.B, shards int) *world {
	b.Helper()
	w := newWorld(b, Config{NoLimits: true})
	w.create("s", shards)
	b.ReportAllocs()
	return w
}

func (w *world) prepared(operation string, in m) *wire.Call {
	w.Helper()
	body, err := w.codec.Marshal(in)
	require.NoError(w, err)
	return &wire.Call{Caller: w.Caller, Operation: operation, Codec: w.codec, Body: body}
}

func batchOf(n, size int) m {
	records := make([]m, n)
	for i := range records {
		records[i] = m{"PartitionKey": fmt.Sprint(i), "Data": make([]byte, size)}
	}
	return m{"StreamName": "s", "Records": records}
}

func BenchmarkPutRecords(b *testing.B) {
	for name, codec := range map[string]wire.Codec{"JSON": wire.JSON11, "CBOR": wire.CBOR} {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, 8)
			w.codec = codec
			call := w.prepared("PutRecords", batchOf(500, 1024))
			b.SetBytes(500 * 1024)
			for b.Loop() {
				if a := w.Prepare(call).Run(); a.Err != nil {
					b.Fatal(a.Err)
				}
				for _, s := range w.peek("s").shards {
					s.log = recordLog{} // memory is not what is measured
				}
			}
		})
	}
}

func BenchmarkPutRecord(b *testing.B) {
	w := benchWorld(b, 1000)
	call := w.prepared("PutRecord", m{"StreamName": "s", "PartitionKey": "k", "Data": make([]byte, 128)})
	for b.Loop() {
		if a := w.Prepare(call).Run(); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

func BenchmarkGetRecords(b *testing.B) {
	for name, codec := range map[string]wire.Codec{"JSON": wire.JSON11, "CBOR": wire.CBOR} {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, 1)
			w.codec = codec
			for range 2 {
				w.do("PutRecords", batchOf(500, 1024))
			}
			call := w.prepared("GetRecords", m{"ShardIterator": w.iterator("s", 0, "TRIM_HORIZON", nil)})
			b.SetBytes(1000 * 1024)
			for b.Loop() {
				if a := w.Prepare(call).Run(); a.Err != nil {
					b.Fatal(a.Err)
				}
			}
		})
	}
}

func BenchmarkGetRecordsEmpty(b *testing.B) {
	w := benchWorld(b, 100_000)
	call := w.prepared("GetRecords", m{"ShardIterator": w.iterator("s", 77_777, "LATEST", nil)})
	for b.Loop() {
		if a := w.Prepare(call).Run(); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

func BenchmarkCreateStream100000(b *testing.B) {
	w := benchWorld(b, 1)
	call := w.prepared("CreateStream", m{"StreamName": "large", "ShardCount": 100_000})
	for b.Loop() {
		if a := w.Prepare(call).Run(); a.Err != nil {
			b.Fatal(a.Err)
		}
		delete(w.streams, streamKey{w.Account, w.Region, "large"})
	}
}

func BenchmarkListShardsPage(b *testing.B) {
	for _, filter := range []string{"AT_LATEST", "AT_TRIM_HORIZON"} {
		b.Run(filter, func(b *testing.B) {
			w := benchWorld(b, 100_000)
			call := w.prepared("ListShards", m{"StreamName": "s", "ExclusiveStartShardId": shardID(49_999), "ShardFilter": m{"Type": filter}})
			for b.Loop() {
				if a := w.Prepare(call).Run(); a.Err != nil {
					b.Fatal(a.Err)
				}
			}
		})
	}
}
