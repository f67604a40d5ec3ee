package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/logging"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/scheduler"
)

const (
	// credentialsTimeout bounds the look for credentials: instance metadata that
	// is not there takes long to say so.
	credentialsTimeout = 5 * time.Second
	// startAttempts: whoever waits for the program to start wants to know within
	// seconds; a service in production may go on trying.
	startAttempts = 3
)

// errDenied says that the worker runs but may not read its shards.
var errDenied = errors.New("no permission to read")

// consumeStream is one worker on a real stream.
func consumeStream(ctx context.Context, o options, stdout, stderr io.Writer) error {
	cfg, err := awsConfig(ctx, o)
	if err != nil {
		return err
	}
	return consume(ctx, cfg, o, stdout, stderr)
}

func consume(ctx context.Context, cfg aws.Config, o options, stdout, stderr io.Writer) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	counter := &counter{shards: make(map[string]*shardCount)}
	s, err := scheduler.New(scheduler.Config{
		Application:      o.app,
		Streams:          kcl.SingleStream(o.stream, o.position),
		AWS:              cfg,
		Kinesis:          kinesis.NewFromConfig(cfg, func(k *kinesis.Options) { override(&k.BaseEndpoint, o.kinesis, o.endpoint) }),
		DynamoDB:         dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) { override(&d.BaseEndpoint, o.dynamodb, o.endpoint) }),
		WorkerIdentifier: o.worker,
		Logger:           slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
		Handler:          counter.handle,

		MaxInitializationAttempts: startAttempts,
	})
	if err != nil {
		return err
	}
	screen := newScreen(stdout)
	screen.say("worker %s joins application %s; Ctrl-C stops gracefully, a second one at once", s.WorkerIdentifier(), o.app)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() { defer close(watched); counter.watch(watch, s, screen, stop) }()
	err = s.Run(ctx)
	endWatch()
	<-watched
	screen.clear()
	select {
	case <-s.Ready():
		counter.write(stdout)
	default: // it never started
	}
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, errDenied) {
		err = cause
	}
	return err
}

// denied returns an error if a shard of the worker cannot be read for want of
// permission. The library goes on trying: permissions may be mended.
func denied(st scheduler.Status) error {
	for _, l := range st.Leases {
		if strings.Contains(l.Error, "AccessDenied") {
			return fmt.Errorf("%w shard %s: %s", errDenied, l.Shard, l.Error)
		}
	}
	return nil
}

// awsConfig loads the ordinary configuration and makes sure of region and
// credentials, so that what is missing is said at once.
func awsConfig(ctx context.Context, o options) (aws.Config, error) {
	var opts []func(*config.LoadOptions) error
	if o.region != "" {
		opts = append(opts, config.WithRegion(o.region))
	}
	if !o.verbose {
		opts = append(opts, config.WithLogger(logging.Nop{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return cfg, fmt.Errorf("AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region is configured: give -region or set AWS_REGION")
	}
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, fmt.Errorf("no AWS credentials found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role is attached (%w)", err)
	}
	return cfg, nil
}

func override(endpoint **string, own, both string) {
	if own == "" {
		own = both
	}
	if own != "" {
		*endpoint = aws.String(own)
	}
}

// counter counts records by shard.
type counter struct {
	mu     sync.Mutex
	shards map[string]*shardCount // guarded by mu
}

type shardCount struct {
	records int
	bytes   int64
	behind  time.Duration
}

func (c *counter) handle(_ context.Context, b *kcl.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shards[b.Shard.ShardID]
	if s == nil {
		s = new(shardCount)
		c.shards[b.Shard.ShardID] = s
	}
	s.records += len(b.Records)
	for _, r := range b.Records {
		s.bytes += int64(len(r.Data))
	}
	s.behind = b.Behind
	return nil
}

// watch shows the counts and what the worker does, and stops it if it may not
// read.
func (c *counter) watch(ctx context.Context, s *scheduler.Scheduler, screen *screen, stop context.CancelCauseFunc) {
	start := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		st := s.Status()
		screen.progress(time.Since(start), c.line(st))
		if err := denied(st); err != nil {
			stop(err)
		}
	}
}

func (c *counter) line(st scheduler.Status) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var total int
	var worst time.Duration
	for _, s := range c.shards {
		total += s.records
	}
	parts := []string{strings.ToLower(strings.ReplaceAll(string(st.State), "_", " "))}
	if st.Leading {
		parts = append(parts, "leading")
	}
	for _, l := range st.Leases {
		if l.Behind != nil {
			worst = max(worst, time.Duration(*l.Behind))
		}
	}
	return fmt.Sprintf("%s, %d leases, %d records, at most %v behind", strings.Join(parts, ", "), len(st.Leases), total, worst.Round(time.Millisecond))
}

func (c *counter) write(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, id := range slices.Sorted(maps.Keys(c.shards)) {
		s := c.shards[id]
		total += s.records
		fmt.Fprintf(w, "%s: %d records, %d bytes, last batch %v behind\n", id, s.records, s.bytes, s.behind.Round(time.Millisecond))
	}
	fmt.Fprintf(w, "%d records in all\n", total)
}
