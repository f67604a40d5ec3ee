//go:build interop

package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/scheduler"
	"github.com/go-kcl/kcl/workermetrics"
)

// peerVariable makes a run of the test binary a worker instead.
const peerVariable = "KCL_INTEROP_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		if err := goPeer(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "ERROR", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// goPeer is a worker of this library that takes the options of javapeer/src/Peer.java
// and says the same.
func goPeer(args []string) error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	opt := func(name string) *string { return flags.String(name, "", "") }
	ms := func(name string) *int64 { return flags.Int64(name, 0, "") }
	endpoint, app, stream, worker, key := opt("endpoint"), opt("app"), opt("stream"), opt("worker"), opt("access-key")
	at, how, load := opt("position"), flags.String("checkpoint", "batch", ""), opt("load")
	failover, lock, beat, assign, report := ms("failover-ms"), ms("lock-ms"), ms("lock-heartbeat-ms"), ms("assignment-ms"), ms("report-ms")
	idle, process := ms("idle-ms"), ms("process-ms")
	balance := flags.Int("balance-every", 0, "")
	single, bake := flags.Bool("single-table", false, ""), flags.Int64("bake-seconds", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	initial := kcl.TrimHorizon
	switch *at {
	case "", "TRIM_HORIZON":
	case "LATEST":
		initial = kcl.Latest
	default:
		n, err := strconv.ParseInt(*at, 10, 64)
		if err != nil {
			return err
		}
		initial = kcl.AtTimestamp(time.UnixMilli(n))
	}
	d := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	s := &speaker{worker: *worker}
	c := scheduler.Config{
		Application: *app, Streams: kcl.SingleStream(*stream, initial), WorkerIdentifier: *worker,
		AWS: aws.Config{
			Region: "us-east-1", BaseEndpoint: endpoint,
			Credentials: credentials.NewStaticCredentialsProvider(*key, "secret", ""),
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		NewProcessor: func(_ context.Context, shard kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &processor{s: s, shard: shard, how: *how, pause: d(*process)}, nil
		},
		OnStateChange: func(st scheduler.State) { s.say(map[string]any{"event": "state", "state": string(st)}) },
	}
	c.Leases.FailoverTime, c.Leases.AssignmentInterval, c.Leases.WorkerReportInterval = d(*failover), d(*assign), d(*report)
	c.Leader.LeaseDuration, c.Leader.HeartbeatPeriod = d(*lock), d(*beat)
	c.Polling.IdleTimeBetweenReads = d(*idle)
	c.MigrateAllEntitiesToLeaseTable, c.TableMigrationCompleteBakeTime = *single, d(*bake*1000)
	u := &c.Leases.WorkerUtilization
	u.VarianceBalancingFrequency = *balance
	u.DisableWorkerMetrics = true
	if *load != "" {
		u.WorkerMetrics = []workermetrics.Metric{madeUp(*load)}
	}
	w, err := scheduler.New(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.say(map[string]any{"event": "start", "pid": os.Getpid()})
	err = w.Run(ctx)
	s.say(map[string]any{"event": "stopped", "graceful": err == nil, "error": fmt.Sprint(err)})
	return err
}

// madeUp is a CPU metric that says what the harness wants it to.
type madeUp string

func (madeUp) Name() string        { return workermetrics.CPU }
func (madeUp) OperatingRange() int { return 100 }
func (m madeUp) Capture(ctx context.Context) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, string(m), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
}

// speaker writes events.
type speaker struct {
	worker string
	mu     sync.Mutex // held while a line is written
}

func (s *speaker) say(fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields["ms"], fields["worker"] = time.Now().UnixMilli(), s.worker
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n')) // the harness has gone
}

type processor struct {
	s     *speaker
	shard kcl.ShardInfo
	how   string
	pause time.Duration
}

func (p *processor) say(event string, kv ...any) {
	fields := map[string]any{"event": event, "stream": p.shard.Stream.String(), "shard": p.shard.ShardID}
	for i := 0; i < len(kv); i += 2 {
		fields[kv[i].(string)] = kv[i+1]
	}
	p.s.say(fields)
}

func (p *processor) Initialize(_ context.Context, in *kcl.Initialization) error {
	pending := "null" // as Java says it
	if in.Pending != nil {
		pending = in.Pending.Position.SequenceNumber
	}
	p.say("initialize", "at", in.Position.SequenceNumber, "sub", in.Position.SubSequenceNumber, "pending", pending)
	return nil
}

func (p *processor) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	for _, r := range b.Records {
		p.say("record", "seq", r.Position.SequenceNumber, "sub", r.Position.SubSequenceNumber, "key", r.PartitionKey,
			"data", base64.StdEncoding.EncodeToString(r.Data[:min(64, len(r.Data))]))
	}
	if p.pause > 0 {
		time.Sleep(p.pause)
	}
	var err error
	switch p.how {
	case "none":
	case "prepare":
		_, err = b.Prepare(ctx, b.Records[len(b.Records)-1].Position, nil)
	default:
		err = b.Checkpoint(ctx)
	}
	if err != nil {
		p.say("checkpoint_error", "error", err.Error())
	}
	return nil
}

func (p *processor) LeaseLost(context.Context) { p.say("lease_lost") }

func (p *processor) ShardEnded(context.Context) error {
	p.say("shard_ended")
	return nil
}

func (p *processor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	p.say("shutdown_requested")
	if p.how == "none" || p.how == "prepare" {
		return nil // what was prepared stays so
	}
	if err := cp.Checkpoint(ctx); err != nil {
		p.say("checkpoint_error", "error", err.Error())
	}
	return nil
}
