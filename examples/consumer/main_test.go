package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

func mustParse(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(args, io.Discard)
	require.NoError(t, err)
	return o
}

func TestParse(t *testing.T) {
	defaults := options{
		workers: 3, shards: 4, records: 20000, recordSize: 100, reshard: true, kill: true, seed: 1,
		app: "kcl-example", position: kcl.TrimHorizon,
	}
	assert.Equal(t, defaults, mustParse(t))
	assert.Equal(t, options{workers: 1, shards: 1000, records: 0, recordSize: 1, seed: 7, json: true, app: "kcl-example", position: kcl.TrimHorizon},
		mustParse(t, "-workers", "1", "-shards=1000", "-records", "0", "-record-size", "1", "-seed", "7", "-json", "-kill=false", "-reshard=false"))
	load := options{workers: 4, shards: 24, records: 20000, recordSize: 1024, reshard: true, kill: true, load: true, seed: 2, json: true, app: "kcl-example", position: kcl.TrimHorizon}
	assert.Equal(t, load, mustParse(t, "-load", "-seed", "2", "-json"))
	real := defaults
	real.stream, real.app, real.region, real.endpoint, real.kinesis, real.dynamodb, real.worker, real.position, real.verbose =
		"s", "a", "r", "e", "k", "d", "w", kcl.Latest, true
	assert.Equal(t, real, mustParse(t, "-stream", "s", "-app", "a", "-region", "r", "-endpoint", "e", "-kinesis-endpoint", "k",
		"-dynamodb-endpoint", "d", "-worker-id", "w", "-position", "latest", "-v"))
	assert.Equal(t, kcl.AtTimestamp(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)), mustParse(t, "-stream", "s", "-position", "2026-01-31T12:00:00Z").position)

	for args, want := range map[string]string{
		"-nothing":                    "flag provided but not defined: -nothing",
		"now":                         `unexpected argument "now"`,
		"-workers 0":                  "-workers is 0, must be 1 to 100",
		"-workers 101":                "-workers is 101",
		"-workers many":               `invalid value "many" for flag -workers`,
		"-shards 0":                   "-shards is 0, must be 1 to 1000",
		"-records -1":                 "-records is -1, must be 0 to 10000000",
		"-record-size 0":              "-record-size is 0, must be 1 to 100000",
		"-stream s -position tomorow": "want TRIM_HORIZON, LATEST or a time like",
		"-app a":                      "-app has no effect without -stream",
		"-position LATEST":            "-position has no effect without -stream",
		"-stream s -workers 3":        "-workers has no effect with -stream",
		"-stream s -json":             "-json has no effect with -stream",
		"-stream s -load":             "-load has no effect with -stream",
		"-load -workers 3":            "-workers has no effect with -load",
		"-load -shards 3":             "-shards has no effect with -load",
		"-load -records 3":            "-records has no effect with -load",
		"-load -record-size 3":        "-record-size has no effect with -load",
		"-load -kill":                 "-kill has no effect with -load",
		"-load -reshard=false":        "-reshard has no effect with -load",
		"-load now":                   `unexpected argument "now"`,
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		assert.ErrorContains(t, err, want, args)
	}
}

// A wrong flag is one line and status 1; help is the flags and status 0.
func TestRunTellsOnce(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"-nothing"}, &out, &errs))
	assert.Equal(t, "consumer: flag provided but not defined: -nothing (-help lists the flags)\n", errs.String())
	errs.Reset()
	assert.Equal(t, 0, run(t.Context(), []string{"-help"}, &out, &errs))
	for _, f := range []string{"-workers", "-stream", "-position where"} {
		assert.Contains(t, errs.String(), f)
	}
	assert.Empty(t, out.String())
	_, err := parse([]string{"-h"}, io.Discard)
	assert.ErrorIs(t, err, flag.ErrHelp)
}

// outcome runs the demonstration in virtual time and returns its JSON.
func outcome(t *testing.T, ctx context.Context, args ...string) (r map[string]any, text string, err error) {
	t.Helper()
	var out bytes.Buffer
	start := time.Now()
	err = demonstrate(ctx, mustParse(t, append(args, "-json")...), &out, io.Discard)
	assert.LessOrEqual(t, time.Since(start), time.Minute)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &r), "the last line is the outcome")
	return r, out.String(), err
}

// The demonstration accounts for every record, whatever its size.
func TestDemonstration(t *testing.T) {
	cases := []struct {
		name         string
		args         []string
		puts, ends   float64
		said, unsaid []string
	}{
		{"as it comes", nil, 20000, 3, []string{"shard 0 is split", "are merged", "is killed", "all 20000 records are put"}, nil},
		{"one worker", []string{"-workers", "1", "-records", "2000"}, 2000, 3, nil, []string{"is killed"}},
		{"one shard", []string{"-shards", "1", "-records", "2000"}, 2000, 1, []string{"shard 0 is split"}, []string{"are merged"}},
		{"no records", []string{"-records", "0"}, 0, 3, nil, nil},
		{"nothing happens", []string{"-records", "500", "-kill=false", "-reshard=false"}, 500, 0, nil, []string{"split", "merged", "killed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, text, err := outcome(t, t.Context(), c.args...)
				require.NoError(t, err)
				for key, want := range map[string]float64{
					"records_put": c.puts, "records_processed": c.puts, "missing": 0, "out_of_order": 0, "before_parent": 0,
					"shards_ended": c.ends, "list_shards_callers": 1, "list_shards_calls": 1,
				} {
					assert.Equal(t, want, r[key], key)
				}
				assert.Contains(t, r, "duplicates")
				assert.Positive(t, r["elapsed_seconds"])
				for _, s := range c.said {
					assert.Contains(t, text, s)
				}
				for _, s := range c.unsaid {
					assert.NotContains(t, text, s)
				}
			})
		})
	}
}

// More records than can be put in a minute, and a signal, end it in time with an
// error and what there is to report.
func TestDemonstrationCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, err := outcome(t, t.Context(), "-shards", "1", "-records", "40000", "-reshard=false")
		require.ErrorContains(t, err, "not done after 50s")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stopped by signal: interrupt")
		time.AfterFunc(3*time.Second, func() { cancel(stop) })
		r, _, err := outcome(t, ctx)
		require.ErrorIs(t, err, stop)
		assert.Less(t, r["elapsed_seconds"], 10.0)
	})
}

// The table says what the JSON says.
func TestDemonstrationTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, demonstrate(t.Context(), mustParse(t, "-records", "1000"), &out, io.Discard))
		for _, line := range []string{`records put +1000`, `processed +1000`, `missing +0`, `shards ended +3`, `worker-\d, bootstrap: 1`, `GetRecords +\d+`} {
			assert.Regexp(t, line, out.String())
		}
	})
}
