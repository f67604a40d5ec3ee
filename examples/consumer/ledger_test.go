package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
)

func batch(shard string, parents []string, sequences ...string) *kcl.Batch {
	b := &kcl.Batch{Shard: kcl.ShardInfo{ShardID: shard, Parents: parents}}
	for _, s := range sequences {
		b.Records = append(b.Records, kcl.Record{Position: kcl.Position{SequenceNumber: s}})
	}
	return b
}

func TestLedgerVerdicts(t *testing.T) {
	put := func(l *ledger) {
		for _, s := range []string{"1", "2", "3"} {
			l.stored("parent", s)
		}
		l.stored("child", "10")
	}
	cases := []struct {
		name  string
		batch []*kcl.Batch
		want  counts
	}{
		{"all well", []*kcl.Batch{batch("parent", nil, "1", "2", "3"), batch("child", []string{"parent"}, "10")},
			counts{Put: 4, Processed: 4}},
		{"seen twice", []*kcl.Batch{batch("parent", nil, "1", "2"), batch("parent", nil, "1", "2", "3"), batch("child", []string{"parent"}, "10")},
			counts{Put: 4, Processed: 4, Duplicates: 2}},
		{"missing", []*kcl.Batch{batch("parent", nil, "1", "3")},
			counts{Put: 4, Processed: 2, Missing: 2}},
		{"out of order", []*kcl.Batch{batch("parent", nil, "1", "3", "2"), batch("child", []string{"parent"}, "10")},
			counts{Put: 4, Processed: 4, OutOfOrder: 1}},
		{"child before the parent's last", []*kcl.Batch{batch("parent", nil, "1", "2"), batch("child", []string{"parent"}, "10"), batch("parent", nil, "3")},
			counts{Put: 4, Processed: 4, BeforeParent: 1}},
		{"grandchild before the end of the line", []*kcl.Batch{
			batch("parent", nil, "1", "2"), batch("empty", []string{"parent"}), batch("child", []string{"empty"}, "10"), batch("parent", nil, "3"),
		}, counts{Put: 4, Processed: 4, BeforeParent: 1}},
		{"more than was put", []*kcl.Batch{batch("parent", nil, "1", "2", "3", "4"), batch("child", []string{"parent"}, "10")},
			counts{Put: 4, Processed: 5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			put(l)
			for _, b := range c.batch {
				l.processed(b)
			}
			assert.Equal(t, c.want, l.counts())
		})
	}
}
