package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	emu "github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// What is not configured is said in one line, before any worker starts.
func TestNotConfigured(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, v := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for args, want := range map[string]string{
		"-stream s":                   "no AWS region is configured: give -region or set AWS_REGION",
		"-stream s -region us-east-1": "no AWS credentials found: set AWS_PROFILE",
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, 1, run(t.Context(), strings.Fields(args), &out, &errs))
		assert.Contains(t, errs.String(), want)
		assert.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		assert.Empty(t, out.String())
	}
}

// onStream runs a worker on an embedded stream of two shards, in a bubble.
func onStream(t *testing.T, f func(t *testing.T, a *kcltest.AWS, consume func(ctx context.Context, args ...string) (out, errs string, err error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{})
		require.NoError(t, a.CreateStream("orders", 2))
		f(t, a, func(ctx context.Context, args ...string) (string, string, error) {
			var out, errs bytes.Buffer
			err := consume(ctx, a.Config("worker"), mustParse(t, append([]string{"-stream", "orders"}, args...)...), &out, &errs)
			return out.String(), errs.String(), err
		})
	})
}

// Records are counted by shard until the context ends, which is no error.
func TestConsumeStream(t *testing.T) {
	onStream(t, func(t *testing.T, a *kcltest.AWS, consume func(context.Context, ...string) (string, string, error)) {
		k := kinesis.NewFromConfig(a.Config("producer"))
		for i := range 100 {
			_, err := k.PutRecord(t.Context(), &kinesis.PutRecordInput{
				StreamName: aws.String("orders"), PartitionKey: aws.String(fmt.Sprint(i)), Data: []byte("data"),
			})
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out, errs, err := consume(ctx, "-worker-id", "me", "-app", "my-app")
		require.NoError(t, err)
		assert.Empty(t, errs)
		assert.Contains(t, out, "worker me joins application my-app")
		assert.Contains(t, out, "started, leading, 2 leases, 100 records, at most 0s behind")
		for _, s := range a.Shards("orders") {
			assert.Contains(t, out, fmt.Sprintf("%s: %d records, %d bytes, last batch 0s behind", s.ID, len(s.Records), 4*len(s.Records)))
		}
		assert.True(t, strings.HasSuffix(out, "\n100 records in all\n"), out)
	})
}

// What keeps a worker from its work ends the program within seconds.
func TestConsumeStreamFails(t *testing.T) {
	cases := []struct{ name, stream, operation, want string }{
		{"unknown stream", "nothing", "", "stream nothing: stream not found"},
		{"no stream's name", "a b", "", `Streams is a stream called "a b"`},
		{"no permission for the table", "orders", "DescribeTable", "AccessDeniedException"},
		{"no permission to scan", "orders", "Scan", "AccessDeniedException"},
		{"no permission to list shards", "orders", "ListShards", "AccessDeniedException"},
		{"no permission for an iterator", "orders", "GetShardIterator", "no permission to read shard shardId-00000000000"},
		{"no permission to read", "orders", "GetRecords", "no permission to read shard shardId-00000000000"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onStream(t, func(t *testing.T, a *kcltest.AWS, consume func(context.Context, ...string) (string, string, error)) {
				a.Intercept(func(_ context.Context, i emu.Info, run func() emu.Answer) (emu.Answer, error) {
					if i.Operation == c.operation {
						codec := emu.JSON10
						if i.Service == "kinesis" {
							codec = emu.JSON11
						}
						return i.Denied().Answer(codec), nil
					}
					return run(), nil
				})
				start := time.Now()
				out, _, err := consume(t.Context(), "-stream", c.stream)
				require.ErrorContains(t, err, c.want)
				assert.NotContains(t, oneLine(err), "\n")
				assert.Less(t, time.Since(start), 10*time.Second)
				if c.operation != "ListShards" && !strings.Contains(c.want, "no permission to read") {
					assert.NotContains(t, out, "in all", "nothing was consumed, nothing is counted")
				}
			})
		})
	}
}

// An endpoint that does not answer is not tried for long.
func TestConsumeStreamUnreachable(t *testing.T) {
	onStream(t, func(t *testing.T, a *kcltest.AWS, consume func(context.Context, ...string) (string, string, error)) {
		a.Intercept(func(context.Context, emu.Info, func() emu.Answer) (emu.Answer, error) {
			return emu.Answer{}, fmt.Errorf("connection refused")
		})
		start := time.Now()
		_, errs, err := consume(t.Context())
		require.ErrorContains(t, err, "could not start")
		assert.Less(t, time.Since(start), 15*time.Second)
		assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
	})
}
