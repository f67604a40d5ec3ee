package workermetrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-kcl/kcl/workermetrics"
)

// backlog is a metric of one's own: the fill of a queue in which the worker's
// processors put what a slow database is to store. A worker with a long queue is
// busy, however little its CPU has to do.
type backlog chan string

func (backlog) Name() string        { return "Q" }
func (backlog) OperatingRange() int { return 80 }

func (q backlog) Capture(context.Context) (float64, error) {
	return 100 * float64(len(q)) / float64(cap(q)), nil
}

func Example_ownMetric() {
	queue := make(backlog, 8)
	queue <- "order 1"
	queue <- "order 2"

	sampler, err := workermetrics.NewSampler(workermetrics.SamplerConfig{
		Metrics: []workermetrics.Metric{
			workermetrics.NewGoMemory(workermetrics.Host{}), // besides one that the library has
			queue,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go sampler.Run(ctx)

	load, err := sampler.Load(ctx) // which a Reporter calls before each report
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reported:", load.Stats["Q"], "of", load.OperatingRange["Q"])
	// Output: reported: [25] of [80]
}

func ExampleWithOperatingRange() {
	// Keep a quarter of the machine for others.
	cpu := workermetrics.WithOperatingRange(workermetrics.NewLinuxCPU(workermetrics.Host{}), 75)
	fmt.Println(cpu.Name(), cpu.OperatingRange())
	// Output: C 75
}

func ExampleNewNetworkIn() {
	// A machine with 10 Gbit/s can receive about 1192 MB/s.
	in, err := workermetrics.NewNetworkIn(workermetrics.Host{}, "ens5", 1192)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Name(), in.OperatingRange())
	// Output: NI 100
}
