//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

const (
	app    = "shop"
	stream = "orders"
)

var (
	version  = flag.String("java", "3.5.1", "release of the Java KCL")
	defaults = flag.Bool("defaults", false, "both sides with their default times, which takes minutes longer")
	logs     = flag.String("logs", "", "directory for the workers' logs; default a new one, deleted after a success")
)

func (t times) args() []string {
	var args []string
	for name, ms := range map[string]int64{
		"failover-ms": t.failover, "lock-ms": t.lock, "lock-heartbeat-ms": t.beat, "assignment-ms": t.assign, "report-ms": t.report,
	} {
		if ms > 0 {
			args = append(args, fmt.Sprintf("--%s=%d", name, ms))
		}
	}
	slices.Sort(args)
	return args
}

// fleet is one scenario under way.
type fleet struct {
	*testing.T
	*watch
	loads    *loads
	aws      *kcltest.AWS
	admin    *kinesis.Client
	endpoint string // of AWS
	metadata string // of the loads
	times    times
	slow     int // factor of every limit
	dir      string
	start    time.Time
	started  time.Time     // the phase
	java     string        // release of the Java workers started from now on
	least    time.Duration // no bound of a pause is below it
	pardons  []string      // patterns of what workers may log in this scenario

	producing context.CancelFunc
	produced  sync.WaitGroup

	emu sync.Mutex
	// Guarded by emu.
	events  []event
	workers map[string]*worker
	phases  []string
}

// worker is a process.
type worker struct {
	name  string
	cmd   *exec.Cmd
	log   string
	done  chan struct{} // closed when it has gone and all its lines are read
	asked bool          // to go; guarded by emu
	began time.Time
	ended time.Time // guarded by emu
}

func newFleet(t *testing.T, shards int, options ...kcltest.Options) *fleet {
	f := &fleet{T: t, loads: &loads{percent: map[string]float64{}}, workers: map[string]*worker{}, start: time.Now(), started: time.Now(), slow: 1, java: *version}
	f.times = times{failover: 10_000, lock: 15_000, beat: 4_000, assign: 4_000, report: 5_000}
	if *defaults {
		f.times, f.slow = times{}, 4
	}
	f.dir = *logs
	if f.dir == "" {
		dir, err := os.MkdirTemp("", "interop-")
		require.NoError(t, err)
		f.dir = dir
		t.Cleanup(func() {
			if !t.Failed() {
				_ = os.RemoveAll(dir)
			}
		})
	}
	f.dir = filepath.Join(f.dir, t.Name())
	require.NoError(t, os.MkdirAll(f.dir, 0o755))
	f.watch = newWatch(f.say)
	var o kcltest.Options
	if len(options) > 0 {
		o = options[0]
	}
	f.aws = kcltest.New(o)
	f.look(f.aws)
	f.admin = kinesis.NewFromConfig(f.aws.Config("admin"))
	require.NoError(t, f.aws.CreateStream(stream, shards))

	server := f.aws.Server()
	server.Handler = f.wrap(server.Handler)
	f.endpoint = f.serve(server)
	f.metadata = f.serve(&http.Server{Handler: f.loads.handler(), ReadHeaderTimeout: 10 * time.Second})
	t.Cleanup(f.clear)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { // until the scenario is over
		for tick := time.Tick(time.Second); ctx.Err() == nil; <-tick {
			f.census(time.Second)
		}
	}()
	f.say("%s: %d shards, Java KCL %s, times %v, logs in %s", t.Name(), shards, *version, strings.Join(f.times.args(), " "), f.dir)
	return f
}

func (f *fleet) serve(s *http.Server) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	go func() { _ = s.Serve(l) }() // until it is closed
	f.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String()
}

// say prints a line at once: a scenario takes minutes.
func (f *fleet) say(format string, args ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(f.start).Seconds(), fmt.Sprintf(format, args...))
}

// phase tells that a part of the scenario is over.
func (f *fleet) phase(format string, args ...any) {
	line := fmt.Sprintf("%-70s %6.1f s", fmt.Sprintf(format, args...), time.Since(f.started).Seconds())
	f.started = time.Now()
	f.say("== %s", line)
	f.emu.Lock()
	defer f.emu.Unlock()
	f.phases = append(f.phases, line)
}

// until waits for something and calls it a phase.
func (f *fleet) until(limit time.Duration, what string, true func() bool) {
	f.Helper()
	limit *= time.Duration(f.slow)
	for end := time.Now().Add(limit); !true(); time.Sleep(100 * time.Millisecond) {
		f.gone()
		if time.Now().After(end) {
			f.Fatalf("not within %v: %s; leader %q, owners %v", limit, what, f.leader(), f.spread())
		}
	}
	f.phase("%s", what)
}

// gone fails if a worker has exited that was not asked to.
func (f *fleet) gone() {
	f.Helper()
	f.emu.Lock()
	defer f.emu.Unlock()
	for _, w := range f.workers {
		select {
		case <-w.done:
			if !w.asked {
				w.asked = true
				f.Fatalf("%s has exited: %v; see %s", w.name, w.cmd.ProcessState, w.log)
			}
		default:
		}
	}
}

// run starts a worker of the side that its name tells.
func (f *fleet) run(name string, more ...string) *worker {
	f.Helper()
	args := append([]string{
		"--endpoint=" + f.endpoint, "--app=" + app, "--stream=" + stream, "--worker=" + name, "--access-key=" + name, "--idle-ms=500",
	}, f.times.args()...)
	if f.java < "3.5" { // has no such option
		args = slices.DeleteFunc(args, func(a string) bool { return side(name) == "java" && strings.HasPrefix(a, "--assignment-ms=") })
	}
	w := &worker{name: name, done: make(chan struct{}), log: filepath.Join(f.dir, name+".log"), began: time.Now()}
	switch side(name) {
	case "java":
		w.cmd = exec.Command("javapeer/run", append(append([]string{f.java}, args...), more...)...)
		w.cmd.Env = append(os.Environ(), "PEER_JAVA_OPTS=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
			"ECS_CONTAINER_METADATA_URI_V4="+f.metadata+"/ecs/"+name)
	case "go":
		args = append(args, "--load="+f.metadata+"/plain/"+name)
		if !*defaults {
			args = append(args, "--balance-every=1")
		}
		w.cmd = exec.Command(must(os.Executable()), append(args, more...)...)
		w.cmd.Env = append(os.Environ(), peerVariable+"=1")
	default:
		f.Fatalf("whose is %s?", name)
	}
	log, err := os.Create(w.log)
	require.NoError(f, err)
	w.cmd.Stderr = log
	lines, err := w.cmd.StdoutPipe()
	require.NoError(f, err)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(f, w.cmd.Start())
	f.emu.Lock()
	require.NotContains(f, f.workers, name)
	f.workers[name] = w
	f.emu.Unlock()
	f.attend(true)
	f.say("%s starts", name)
	go func() { // until the process has gone
		defer close(w.done)
		defer log.Close()
		s := bufio.NewScanner(lines)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			e := event{}
			if err := json.Unmarshal(s.Bytes(), &e); err != nil {
				f.fault("%s says %q: %v", name, s.Text(), err)
				continue
			}
			e.Worker = name
			f.emu.Lock()
			f.events = append(f.events, e)
			f.emu.Unlock()
		}
		_ = w.cmd.Wait()
		f.emu.Lock()
		w.ended = time.Now()
		f.emu.Unlock()
	}()
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (f *fleet) signal(name string, s syscall.Signal) *worker {
	f.Helper()
	f.emu.Lock()
	defer f.emu.Unlock()
	w := f.workers[name]
	require.NotNil(f, w, name)
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		w.asked = true
		f.mu.Lock()
		f.left[name] = true
		f.mu.Unlock()
	}
	switch s {
	case syscall.SIGKILL:
		f.upset("killed", name)
	case syscall.SIGTERM:
		f.upset("stopped", name)
	case syscall.SIGSTOP:
		f.upset("frozen", name)
	case syscall.SIGCONT:
		f.over(name)
	}
	f.say("%s gets %v", name, s)
	require.NoError(f, w.cmd.Process.Signal(s))
	return w
}

// kill ends workers as a crash does.
func (f *fleet) kill(names ...string) {
	for _, name := range names {
		<-f.signal(name, syscall.SIGKILL).done
	}
	f.attend(len(f.live()) > 0)
}

// stop ends workers gracefully.
func (f *fleet) stop(names ...string) {
	f.Helper()
	var all []*worker
	for _, name := range names {
		all = append(all, f.signal(name, syscall.SIGTERM))
	}
	for _, w := range all {
		select {
		case <-w.done:
		case <-time.After(60 * time.Second):
			f.Errorf("%s does not stop", w.name)
			_ = w.cmd.Process.Kill()
			<-w.done
		}
		f.over(w.name)
		if side(w.name) == "go" && w.cmd.ProcessState.ExitCode() != 0 {
			f.Errorf("%s ends with %v; see %s", w.name, w.cmd.ProcessState, w.log)
		}
	}
	f.attend(len(f.live()) > 0)
}

// live returns the names of the workers that have not gone.
func (f *fleet) live() (names []string) {
	f.emu.Lock()
	defer f.emu.Unlock()
	for name, w := range f.workers {
		select {
		case <-w.done:
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *fleet) clear() {
	if f.producing != nil {
		f.producing()
	}
	f.produced.Wait()
	for _, name := range f.live() {
		w := f.signal(name, syscall.SIGKILL)
		<-w.done
	}
}

func (f *fleet) spread() map[string]int {
	all := map[string]int{}
	for _, name := range f.live() {
		all[name] = len(f.owned(name))
	}
	return all
}

func (f *fleet) seen() []event {
	f.emu.Lock()
	defer f.emu.Unlock()
	return slices.Clone(f.events)
}

// delivered counts the records that a worker was handed.
func (f *fleet) delivered(name string) (n int) {
	for _, e := range f.seen() {
		if e.Event == "record" && e.Worker == name {
			n++
		}
	}
	return n
}

// produce puts so many records a second, until the scenario drains.
func (f *fleet) produce(rate int) {
	ctx, cancel := context.WithCancel(context.Background())
	f.producing = cancel
	client := kinesis.NewFromConfig(f.aws.Config("producer"))
	f.produced.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := client.PutRecord(context.Background(), &kinesis.PutRecordInput{
				StreamName: aws.String(stream), PartitionKey: aws.String("key-" + strconv.Itoa(n)), Data: bytes.Repeat([]byte{'x'}, 1000),
			}); err != nil {
				f.fault("producer: %v", err)
			}
		}
	})
}

// rest ends the producer.
func (f *fleet) rest() {
	f.producing()
	f.produced.Wait()
}

// behind is the age of the oldest record that was not delivered.
func (f *fleet) behind() time.Duration {
	seen := map[string]bool{}
	for _, e := range f.seen() {
		seen[e.Shard+e.Seq] = e.Event == "record" || seen[e.Shard+e.Seq]
	}
	now := time.Now()
	oldest := now
	for _, s := range f.aws.Shards(stream) {
		for _, r := range s.Records {
			if r.Arrived.Before(oldest) && !seen[s.ID+r.SequenceNumber] {
				oldest = r.Arrived
			}
		}
	}
	return now.Sub(oldest)
}

// drained waits until all that was put is processed.
func (f *fleet) drained(limit time.Duration) {
	f.Helper()
	f.until(limit, "all records processed", func() bool {
		return len(judge(f.aws.Shards(stream), f.seen(), time.Time{}).missing) == 0
	})
}

// finish drains, stops everybody and judges.
func (f *fleet) finish() {
	f.Helper()
	f.rest()
	f.drained(100 * time.Second)
	f.stop(f.live()...)
	f.phase("everybody stopped")
	f.conclude(time.Time{})
}

func (f *fleet) conclude(since time.Time) {
	f.Helper()
	f.attend(false)
	v := judge(f.aws.Shards(stream), f.seen(), since)
	f.emu.Lock()
	defer f.emu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.workers)) {
		for _, line := range complaints(side(name), string(must(os.ReadFile(f.workers[name].log)))) {
			if !slices.ContainsFunc(f.pardons, func(p string) bool { return regexp.MustCompile(p).MatchString(line) }) {
				f.Errorf("%s logs: %s", name, line)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := law{times: f.times, reigns: f.reigns, absence: f.absence, least: f.least}
	for _, u := range f.upsets {
		l.upsets = append(l.upsets, *u)
	}
	unread, breaches := l.findings(v.unread)
	for _, x := range breaches {
		f.Errorf("unread for %v", x)
	}
	silent, breaches := l.findings(f.silences)
	for _, x := range breaches {
		f.Errorf("without an owner for %v", x)
	}
	for _, x := range append(v.faults, f.faults...) {
		f.Error(x)
	}
	for _, m := range v.missing {
		f.Errorf("not processed: %s", m)
	}
	f.summary(v, unread, silent)
}

// summary prints the scenario's table. The caller holds emu and mu.
func (f *fleet) summary(v verdict, unread, silent []finding) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\n---- %s, Java KCL %s, %.0f s ----\n", f.Name(), *version, time.Since(f.start).Seconds())
	for _, p := range f.phases {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	row("records", "%d put; first delivered by Java %d, by Go %d; missing %d", v.put, v.bySide["java"], v.bySide["go"], len(v.missing))
	row("repeated", "by Java %d, by Go %d", v.repeated["java"], v.repeated["go"])
	count := map[string][2]int{}
	for _, m := range f.moves {
		c := count[side(m.from)+"→"+side(m.to)]
		if c[0]++; m.graceful {
			c[1]++
		}
		count[side(m.from)+"→"+side(m.to)] = c
	}
	for _, d := range slices.Sorted(maps.Keys(count)) {
		row("hand-offs "+d, "%d, graceful %d", count[d][0], count[d][1])
	}
	for _, d := range slices.Sorted(maps.Keys(f.assigned)) {
		row("assigned by "+d, "%d", f.assigned[d])
	}
	for _, d := range slices.Sorted(maps.Keys(v.across)) {
		row("shards with parent → child", "%s: %d", d, v.across[d])
	}
	row("leaders", "%s", strings.Join(f.leaders, ", "))
	for _, x := range unread {
		row("unread", "%v", x)
	}
	for _, x := range silent[:min(3, len(silent))] {
		row("without an owner", "%v", x)
	}
	if f.late > 0 {
		row("late assignments", "%d", f.late)
	}
	lived := map[string]float64{}
	for _, x := range f.workers {
		lived[side(x.name)] += x.ended.Sub(x.began).Seconds()
	}
	type count2 map[string]int
	calls := map[string]count2{}
	for _, c := range f.aws.Calls() {
		if s := side(c.Client); s == "java" || s == "go" {
			if calls[c.Operation] == nil {
				calls[c.Operation] = count2{}
			}
			calls[c.Operation][s] += c.Calls
			calls[c.Operation][s+" refused"] += c.Errors
		}
	}
	fmt.Fprintf(w, "  calls (errors)\tJava\tGo\n")
	for _, op := range slices.Sorted(maps.Keys(calls)) {
		c := calls[op]
		fmt.Fprintf(w, "    %s\t%d (%d)\t%d (%d)\n", op, c["java"], c["java refused"], c["go"], c["go refused"])
	}
	fmt.Fprintf(w, "    worker-seconds\t%.0f\t%.0f\n", lived["java"], lived["go"])
	for _, what := range []string{"lease writes", "other writes", "read"} {
		fmt.Fprintf(w, "    units of %s\t%.1f\t%.1f\n", what, f.units["java "+what], f.units["go "+what])
	}
	fmt.Fprintf(w, "    lease-seconds\t%.0f\t%.0f\n", f.held["java"], f.held["go"])
	per := func(side string) string {
		if f.held[side] < 60 {
			return "-"
		}
		return fmt.Sprintf("%.0f", f.units[side+" lease writes"]*3600/f.held[side])
	}
	fmt.Fprintf(w, "    write units a lease-hour\t%s\t%s\n", per("java"), per("go"))
	_ = w.Flush()
	fmt.Println(b.String())
}

// shards returns the stream's open shards.
func (f *fleet) open() []types.Shard {
	out, err := f.admin.ListShards(context.Background(), &kinesis.ListShardsInput{
		StreamName: aws.String(stream), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	require.NoError(f, err)
	return out.Shards
}

// split divides a shard in the middle.
func (f *fleet) split(shard string) {
	f.Helper()
	i := slices.IndexFunc(f.open(), func(s types.Shard) bool { return *s.ShardId == shard })
	require.GreaterOrEqual(f, i, 0, shard)
	r := f.open()[i].HashKeyRange
	a, _ := new(big.Int).SetString(*r.StartingHashKey, 10)
	b, _ := new(big.Int).SetString(*r.EndingHashKey, 10)
	_, err := f.admin.SplitShard(context.Background(), &kinesis.SplitShardInput{
		StreamName: aws.String(stream), ShardToSplit: aws.String(shard), NewStartingHashKey: aws.String(a.Add(a, b).Rsh(a, 1).String()),
	})
	require.NoError(f, err)
	f.say("shard %s is split", short(shard))
}

func (f *fleet) merge(left, right string) {
	f.Helper()
	_, err := f.admin.MergeShards(context.Background(), &kinesis.MergeShardsInput{
		StreamName: aws.String(stream), ShardToMerge: aws.String(left), AdjacentShardToMerge: aws.String(right),
	})
	require.NoError(f, err)
	f.say("shards %s and %s are merged", short(left), short(right))
}
