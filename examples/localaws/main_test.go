package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"
)

// An SDK pointed at the port finds the streams asked for, each call is logged,
// and the program ends when it is told to.
func TestServesUntilStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-addr", "127.0.0.1:0", "-stream", "orders:3", "-log"}, w, io.Discard)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	require.True(t, lines.Scan())
	url, ok := strings.CutPrefix(lines.Text(), "ready ")
	require.True(t, ok, lines.Text())

	logged := make(chan []string, 1)
	go func() {
		var all []string
		for lines.Scan() {
			all = append(all, lines.Text())
		}
		logged <- all
	}()
	client := kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("someone", "secret", ""),
	})
	out, err := client.ListShards(ctx, &kinesis.ListShardsInput{StreamName: aws.String("orders")})
	require.NoError(t, err)
	require.Len(t, out.Shards, 3)

	stop()
	require.NoError(t, <-done)
	all := <-logged
	require.Len(t, all, 1)
	require.Contains(t, all[0], "someone kinesis.ListShards orders 200")
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-stream orders":                    "want NAME:SHARDS",
		"-stream orders:0":                  "want NAME:SHARDS",
		"-stream :4":                        "want NAME:SHARDS",
		"-stream orders:many":               "want NAME:SHARDS",
		"-stream orders:1 -stream orders:2": "create stream orders",
		"-stream bad/name:1":                "create stream bad/name",
		"orders:4":                          "unexpected argument",
		"-addr nowhere:http:1":              "nowhere:http:1",
		"-nothing":                          "-nothing (-help lists the flags)",
	} {
		var errs strings.Builder
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), io.Discard, &errs), want, args)
		require.Empty(t, errs.String(), "main tells of it, once")
	}
	var help strings.Builder
	require.NoError(t, run(t.Context(), []string{"-help"}, io.Discard, &help))
	require.Contains(t, help.String(), "-stream NAME:SHARDS")
}
