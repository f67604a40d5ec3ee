// Localaws serves the embedded AWS (Kinesis and DynamoDB, in memory) on a port,
// so that any AWS SDK can be pointed at it:
//
//	go run ./examples/localaws -stream orders:4
//	AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x go run ./examples/consumer \
//		-stream orders -region us-east-1 -endpoint http://127.0.0.1:4566
//
// It prints "ready URL" once it listens, and ends on SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-kcl/kcl/kcltest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "localaws:", err)
		os.Exit(1)
	}
}

type stream struct {
	name   string
	shards int
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("localaws", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told of once, by main
	addr := flags.String("addr", "127.0.0.1:4566", "`address` to listen on")
	region := flags.String("region", kcltest.DefaultRegion, "`region` the streams are created in; clients of any region are served")
	logCalls := flags.Bool("log", false, "print one line a call")
	var streams []stream
	flags.Func("stream", "create a stream, `NAME:SHARDS`; may be repeated", func(v string) error {
		s, err := parseStream(v)
		streams = append(streams, s)
		return err
	})
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprint(stderr, "Localaws serves an AWS in memory, Kinesis and DynamoDB, on a port.\n\n")
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w (-help lists the flags)", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	opts := kcltest.Options{Region: *region}
	if *logCalls {
		opts.OnCall = (&callLog{w: stdout}).print
	}
	aws := kcltest.New(opts)
	for _, s := range streams {
		if err := aws.CreateStream(s.name, s.shards); err != nil {
			return fmt.Errorf("create stream %s: %w", s.name, err)
		}
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := aws.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "ready http://%s\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Calls last milliseconds; a client that keeps its connection open does not.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(closing); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func parseStream(v string) (stream, error) {
	name, count, ok := strings.Cut(v, ":")
	shards, err := strconv.Atoi(count)
	if !ok || name == "" || err != nil || shards < 1 {
		return stream{}, fmt.Errorf("want NAME:SHARDS with at least one shard")
	}
	return stream{name, shards}, nil
}

type callLog struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *callLog) print(c kcltest.Call) {
	outcome := strconv.Itoa(c.Status)
	if c.Code != "" {
		outcome += " " + c.Code
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %s %s.%s %s %s %s\n", c.At.Format("15:04:05.000"), c.Client, c.Service, c.Operation,
		strings.Join(c.Resources, ","), outcome, c.Took.Round(time.Microsecond))
}
