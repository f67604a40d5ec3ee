package kinesis

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Calls may come at the same time; what the answers show does not change after.
func TestConcurrentCalls(t *testing.T) {
	w := newWorld(t, Config{NoLimits: true})
	w.create("s", 4)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			call := func(operation string, in m, out any) {
				body, err := json.Marshal(in)
				assert.NoError(t, err)
				a := w.Prepare(&wire.Call{Caller: w.Caller, Operation: operation, Codec: wire.JSON11, Body: body}).Run()
				assert.Nil(t, a.Err)
				assert.NoError(t, json.Unmarshal(a.Body, out))
			}
			for i := range 50 {
				key := fmt.Sprint(g, "-", i)
				var (
					put    putRecordOutput
					it     getShardIteratorOutput
					page   getRecordsOutput
					listed listShardsOutput
				)
				call("PutRecord", m{"StreamName": "s", "PartitionKey": key, "Data": []byte("x")}, &put)
				call("GetShardIterator", m{"StreamName": "s", "ShardId": put.ShardId,
					"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": put.SequenceNumber}, &it)
				call("GetRecords", m{"ShardIterator": it.ShardIterator}, &page)
				call("ListShards", m{"StreamName": "s"}, &listed)
				assert.Equal(t, key, keysOf(page)[0])
			}
		})
	}
	wg.Wait()
	assert.Len(t, w.stored("s"), 400)
}

// aws-kinesis#60
func TestSameCallsSameAnswers(t *testing.T) {
	history := func() (log []byte) {
		bubble(t, Config{LateEnd: 1, EmptyPages: 1, TrimmedPages: 1, NumberLag: time.Second}, func(t *testing.T, w *world) {
			w.keep = true
			for _, name := range []string{"b", "c", "a", "s"} {
				w.do("CreateStream", m{"StreamName": name, "ShardCount": 2})
			}
			w.awaitActive("s")
			w.answer("AddTagsToStream", m{"StreamName": "s", "Tags": m{"x": "1", "y": "2", "z": "3"}})
			for i := range 40 {
				w.put("s", fmt.Sprint(i))
				time.Sleep(77 * time.Millisecond)
				switch i {
				case 5:
					w.split("s", 1)
				case 20:
					w.merge("s", 0, 2)
				case 30:
					w.answer("DeleteStream", m{"StreamName": "a"})
				}
			}
			for _, n := range w.numbers("s", nil) {
				for it := w.iterator("s", n, "TRIM_HORIZON", nil); it != ""; {
					out := w.read(it)
					time.Sleep(time.Second)
					if it = out.NextShardIterator; len(out.Records) == 0 && out.MillisBehindLatest == 0 {
						break
					}
				}
			}
			w.answer("ListStreams", m{"Limit": 1})
			w.answer("ListTagsForStream", m{"StreamName": "s"})
			w.answer("ListShards", m{"StreamName": "s", "MaxResults": 2})
			w.answer("DescribeStream", m{"StreamName": "a"})
			log = w.log
		})
		return log
	}
	first := history()
	assert.Greater(t, len(first), 10_000)
	for range 3 {
		assert.Equal(t, string(first), string(history()))
	}
}
