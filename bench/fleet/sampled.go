package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
)

const (
	// sampledTrial is the one whose simulated flows are sampled, for so many seconds; the most
	// flows of which an agent makes a sample each 100 ms.
	sampledTrial   = "samples"
	sampledSeconds = 10
	sampledFlows   = 16
	// outboxBytes bounds what a machine holds of its samples.
	outboxBytes = 4 << 20
)

// flows are simulated ones, which have sent some bytes whenever they are asked.
func flows() []probe.ReadFlow {
	all := make([]probe.ReadFlow, sampledFlows)
	for i := range all {
		var sent int64
		all[i] = func() (probe.FlowCount, bool) {
			sent += 1_000_000 + rand.Int64N(200_000)
			return probe.FlowCount{Bytes: sent, RTT: time.Millisecond + time.Duration(rand.Int64N(500))*time.Microsecond, CongestionWindow: 1448 * (40 + rand.Int64N(20))}, true
		}
	}
	return all
}

// counted is a run's file, and how many samples were put there.
type counted struct {
	*store.Store
	samples atomic.Int64
}

// PutSamples keeps blocks.
func (c *counted) PutSamples(ctx context.Context, blocks []samples.Block) error {
	if err := c.Store.PutSamples(ctx, blocks); err != nil {
		return err
	}
	for _, b := range blocks {
		c.samples.Add(int64(b.Samples))
	}
	return nil
}

// keep opens a file for samples, and what takes them; end closes both.
func keep(folder string) (kept *counted, taken *collect.Collector, end func() error, err error) {
	st, err := store.Create(filepath.Join(folder, "run"), store.Head{Name: fleetName})
	if err != nil {
		return nil, nil, nil, err
	}
	kept = &counted{Store: st}
	taken = collect.Open(collect.Options{Keeper: kept, Run: fleetName})
	return kept, taken, func() error {
		taken.Close()
		return st.Close()
	}, nil
}

// sample has all sources sample their flows, and notes how many samples got to the disk each
// second, until the last was there.
func (r *row) sample(ctx context.Context, bed testbed.Testbed, kept *counted, taken *collect.Collector) error {
	o, err := do(ctx, bed, sampledTrial, sampledSeconds)
	if err != nil {
		return err
	}
	if err := taken.Drain(ctx); err != nil {
		return err
	}
	now, _, _ := clock.System(time.Now())
	r.Samples = float64(kept.samples.Load()) / (now - time.Duration(slices.Max(o.started))).Seconds()
	var dropped int64
	for _, n := range taken.Dropped() {
		dropped += n
	}
	made := int64(len(o.started)) * sampledFlows * sampledSeconds * int64(time.Second/(100*time.Millisecond))
	fmt.Fprintf(os.Stderr, "%d machines: %d samples on the disk of about %d that their flows have made, %d given up\n", r.Machines, kept.samples.Load(), made, dropped)
	return nil
}

// sampled is what simulated flows of a test do while it goes on.
func sampled(r probe.Request, started time.Time) (ended func()) {
	if r.ID != sampledTrial || r.Watch == nil {
		return func() {}
	}
	return r.Watch(started, flows())
}
