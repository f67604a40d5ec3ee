package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/scheduler"
)

const (
	// What there is to do: loadRate records of loadSize bytes a second in each
	// shard, which make workers with the shards that their speeds call for busyLoad
	// percent busy on top of idleLoad.
	loadShards         = 24
	loadRate           = 8
	loadSize           = 1024
	shardKBps          = loadRate * loadSize / 1024
	idleLoad, busyLoad = 5., 35.
	// loadMemory is the time constant of the average that a worker's load is.
	loadMemory = 2 * time.Second

	// Load has settled when for evenFor nobody had more than evenBand times the
	// average. That is waited for until settleLimit, twice.
	evenBand    = 1.25
	evenFor     = 8 * time.Second
	settleLimit = 75 * time.Second
	loadLimit   = 2*settleLimit + drainLimit

	// loadEvery is the pace of rows that show it.
	loadEvery = 2 * time.Second
)

// speeds are those of the workers. They call for a whole number of leases each.
var speeds = [...]float64{3, 2, 2, 1}

// byLoad has a worker assign by load, as is the default, at a pace for people who
// watch. In production a worker reports every 30 s, which all workers take for
// granted of each other, and balances every minute.
func byLoad(c *scheduler.Config, load *cpu) {
	c.Leases.WorkerReportInterval = 2 * time.Second
	c.Leases.AssignmentInterval = time.Second
	u := &c.Leases.WorkerUtilization
	u.WorkerMetrics = append(u.WorkerMetrics, load)
	u.CaptureInterval = 200 * time.Millisecond
	u.VarianceBalancingFrequency = 1 // every 20 s
	u.DampeningPercentage = 100      // all of an excess at once
	c.Polling.IdleTimeBetweenReads = 250 * time.Millisecond
}

// cpu is the made-up CPU of one worker: busier with every KB a second that its
// processors are handed, the more so the slower it is. A program's own metric is
// made like it.
type cpu struct {
	mu    sync.Mutex
	speed float64
	perKB float64 // percent that a KB a second costs at speed 1
	kb    float64 // since last
	last  time.Time
	load  float64 // percent; what is above 100 is kept back
}

func (*cpu) Name() string        { return "C" }
func (*cpu) OperatingRange() int { return 0 } // all of it

func (c *cpu) Capture(context.Context) (float64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(c.last)
	switch {
	case c.last.IsZero():
		c.load = idleLoad
	case elapsed > 0:
		busy := idleLoad + c.perKB/c.speed*c.kb/elapsed.Seconds()
		c.load -= (busy - c.load) * math.Expm1(-float64(elapsed)/float64(loadMemory))
	}
	c.kb, c.last = 0, now
	return min(c.load, 100), nil
}

func (c *cpu) now() (speed, load float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.speed, min(c.load, 100)
}

func (c *cpu) work(b *kcl.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range b.Records {
		c.kb += float64(len(r.Data)) / 1024
	}
}

func (c *cpu) slow(by float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.speed /= by
}

// newCPU is that of the worker with that index.
func newCPU(i int) *cpu {
	sum := 0.
	for _, s := range speeds {
		sum += s
	}
	return &cpu{speed: speeds[i], perKB: busyLoad * sum / (loadShards * shardKBps)}
}

// standing is how one worker stands. Its JSON form is part of the program's
// interface, as a phase's is.
type standing struct {
	Worker string  `json:"worker"`
	Speed  float64 `json:"speed"`
	// Leases is how many it holds, BySpeed how many its speed calls for.
	Leases  int     `json:"leases"`
	BySpeed float64 `json:"leases_by_speed"`
	Load    float64 `json:"load_percent"`
}

// stand says how the workers stand.
func (f *fleet) stand() []standing {
	all, sum := make([]standing, len(f.workers)), 0.
	for i, w := range f.workers {
		speed, load := w.cpu.now()
		all[i] = standing{Worker: w.name, Speed: speed, Leases: len(w.Status().Leases), Load: tenth(load)}
		sum += speed
	}
	for i := range all {
		all[i].BySpeed = tenth(loadShards * all[i].Speed / sum)
	}
	return all
}

func tenth(x float64) float64 { return math.Round(10*x) / 10 }

// uneven is an error if not all leases are held, or if a worker with a lease to
// spare has a load far above the average.
func uneven(all []standing) error {
	held, average := 0, 0.
	for _, s := range all {
		held += s.Leases
		average += s.Load / float64(len(all))
	}
	if held != loadShards {
		return fmt.Errorf("%d of %d leases are held", held, loadShards)
	}
	top := slices.MaxFunc(all, func(a, b standing) int { return cmp.Compare(a.Load, b.Load) })
	if top.Load <= average*evenBand || top.Leases <= 1 {
		return nil
	}
	return fmt.Errorf("%s is at %.0f %% with %d leases, the average is %.0f %%", top.Worker, top.Load, top.Leases, average)
}

// phase is a part of the demonstration in which load settles.
type phase struct {
	Name    string     `json:"name"`
	Settled bool       `json:"settled"`
	Seconds float64    `json:"seconds"`
	Moves   int        `json:"moves"`
	Workers []standing `json:"workers"`
}

// balance has records flow steadily until the load has settled, slows a worker
// down, has it settle again, and waits for what is left to be processed.
func (d *demo) balance(ctx context.Context) error {
	put, enough := make(chan error, 1), make(chan struct{})
	go func() { put <- d.producer.steady(ctx, loadShards, enough) }() // awaited below
	err := d.phase(ctx, "workers of unequal speed")
	if err == nil {
		first := d.fleet.workers[0]
		first.cpu.slow(2)
		err = d.phase(ctx, first.name+" at half its speed")
	}
	close(enough)
	err = errors.Join(err, <-put)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, d.drain(ctx))
}

// phase waits until the load is even and stays so.
func (d *demo) phase(ctx context.Context, name string) error {
	d.screen.say("%s\n%s", name, d.loadHead())
	p := phase{Name: name}
	start, moved := time.Now(), d.fleet.moved()
	defer func() {
		p.Seconds = tenth(time.Since(start).Seconds())
		p.Moves = d.fleet.moved() - moved
		p.Workers = d.fleet.stand()
		d.phases = append(d.phases, p)
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for evenSince := start; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		fault := uneven(d.fleet.stand())
		switch {
		case fault != nil && time.Since(start) >= settleLimit:
			return fmt.Errorf("%s: the load did not settle within %v: %w", name, settleLimit, fault)
		case fault != nil:
			evenSince = time.Now()
		case time.Since(evenSince) >= evenFor:
			p.Settled = true
			return nil
		}
	}
}

// loadHead is the head of the table that loadRow is a row of: the workers and
// their speeds.
func (d *demo) loadHead() string {
	return "      " + d.loadLine("moves", func(s standing) string { return fmt.Sprintf("%s (%g)", s.Worker, s.Speed) })
}

func (d *demo) loadRow() string {
	return d.loadLine(fmt.Sprint(d.fleet.moved()), func(s standing) string { return fmt.Sprintf("%d leases %3.0f%%", s.Leases, s.Load) })
}

func (d *demo) loadLine(moves string, cell func(standing) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5s", moves)
	for _, s := range d.fleet.stand() {
		fmt.Fprintf(&b, "  %14s", cell(s))
	}
	return b.String()
}
