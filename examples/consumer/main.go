// Consumer is the program a newcomer runs first.
//
// Without flags it shows the library at work on an AWS embedded in this process:
// a fleet of workers consumes a stream that is split and merged meanwhile, one
// worker is killed, and at the end every record is accounted for. With -load the
// workers are of unequal speed, and leases move until all are equally busy; then
// one slows down, and they do so again.
//
//	go run ./examples/consumer
//	go run ./examples/consumer -load
//
// With -stream it consumes a real stream through the ordinary AWS configuration
// (environment, profile, instance role), as one worker of as many as are started,
// and counts records until Ctrl-C.
//
//	go run ./examples/consumer -stream orders -app my-first-app
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-kcl/kcl"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the program
		cancel(fmt.Errorf("stopped by signal: %v", <-signals))
		<-signals
		fmt.Fprintln(os.Stderr, "consumer: second signal, stopped at once")
		os.Exit(1)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	// Of the demonstration.
	workers, shards, records, recordSize int
	reshard, kill, load                  bool
	seed                                 uint64
	json                                 bool
	// Of a real stream.
	stream, app, region         string
	endpoint, kinesis, dynamodb string
	position                    kcl.InitialPosition
	worker                      string
	verbose                     bool
}

const usage = `Consumer shows the library at work on an AWS embedded in this process or, with
-stream, consumes a real stream until Ctrl-C.

`

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{position: kcl.TrimHorizon}
	f := flag.NewFlagSet("consumer", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is told of once, by run
	f.BoolVar(&o.load, "load", false, "demonstration: see leases and load settle among four workers of unequal speed, of which one slows down; 75 s")
	f.IntVar(&o.workers, "workers", 3, "demonstration without -load: workers in the fleet, 1 to 100")
	f.IntVar(&o.shards, "shards", 4, "demonstration without -load: shards of the stream, 1 to 1000")
	f.IntVar(&o.records, "records", 20000, "demonstration without -load: records to put")
	f.IntVar(&o.recordSize, "record-size", 100, "demonstration without -load: bytes of a record, 1 to 100000")
	f.BoolVar(&o.reshard, "reshard", true, "demonstration without -load: split a shard and merge two while records flow")
	f.BoolVar(&o.kill, "kill", true, "demonstration without -load: kill a worker that does not lead while records flow")
	f.Uint64Var(&o.seed, "seed", 1, "demonstration: `seed` of the partition keys and record data")
	f.BoolVar(&o.json, "json", false, "demonstration: print the outcome as one JSON object, as the last line")
	f.StringVar(&o.stream, "stream", "", "`name` or ARN of a real stream to consume, instead of the demonstration")
	f.StringVar(&o.app, "app", "kcl-example", "with -stream: application name, and so the name of the lease table")
	f.StringVar(&o.region, "region", "", "with -stream: AWS region, if not configured otherwise")
	f.StringVar(&o.endpoint, "endpoint", "", "with -stream: `URL` of both services, such as that of examples/localaws")
	f.StringVar(&o.kinesis, "kinesis-endpoint", "", "with -stream: `URL` of Kinesis")
	f.StringVar(&o.dynamodb, "dynamodb-endpoint", "", "with -stream: `URL` of DynamoDB")
	f.Func("position", "with -stream: `where` to begin a stream without checkpoints: TRIM_HORIZON (default), LATEST or an RFC 3339 time", func(v string) error {
		p, err := parsePosition(v)
		o.position = p
		return err
	})
	f.StringVar(&o.worker, "worker-id", "", "with -stream: this worker's name; default: the host's name and a random suffix")
	f.BoolVar(&o.verbose, "v", false, "print the library's log to standard error")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(stderr)
			fmt.Fprint(stderr, usage)
			f.PrintDefaults()
		}
		return o, err
	}
	if err := o.wrongMode(f); err != nil {
		return o, err
	}
	if o.load {
		o.workers, o.shards, o.recordSize = len(speeds), loadShards, loadSize
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.workers < 1 || o.workers > 100:
		return o, fmt.Errorf("-workers is %d, must be 1 to 100", o.workers)
	case o.shards < 1 || o.shards > 1000:
		return o, fmt.Errorf("-shards is %d, must be 1 to 1000", o.shards)
	case o.records < 0 || o.records > 10_000_000:
		return o, fmt.Errorf("-records is %d, must be 0 to 10000000", o.records)
	case o.recordSize < 1 || o.recordSize > 100_000:
		return o, fmt.Errorf("-record-size is %d, must be 1 to 100000", o.recordSize)
	}
	return o, nil
}

// wrongMode finds a flag that would do nothing: one of the demonstration with
// -stream, one of a real stream without it, or one of what -load does without. The
// flags' texts say which it is.
func (o options) wrongMode(f *flag.FlagSet) (err error) {
	f.Visit(func(g *flag.Flag) {
		of := func(mode string) bool { return strings.HasPrefix(g.Usage, mode) }
		switch {
		case o.stream == "" && of("with -stream:"):
			err = fmt.Errorf("-%s has no effect without -stream", g.Name)
		case o.stream != "" && of("demonstration"):
			err = fmt.Errorf("-%s has no effect with -stream", g.Name)
		case o.load && of("demonstration without -load:"):
			err = fmt.Errorf("-%s has no effect with -load", g.Name)
		}
	})
	return err
}

func parsePosition(v string) (kcl.InitialPosition, error) {
	switch strings.ToUpper(v) {
	case "TRIM_HORIZON":
		return kcl.TrimHorizon, nil
	case "LATEST":
		return kcl.Latest, nil
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return kcl.InitialPosition{}, errors.New("want TRIM_HORIZON, LATEST or a time like 2026-01-31T12:00:00Z")
	}
	return kcl.AtTimestamp(t), nil
}

// run is the program, until ctx ends. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		err = fmt.Errorf("%w (-help lists the flags)", err)
	case o.stream != "":
		err = consumeStream(ctx, o, stdout, stderr)
	default:
		err = demonstrate(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "consumer:", oneLine(err))
		return 1
	}
	return 0
}

// oneLine joins the parts of a joined error.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
