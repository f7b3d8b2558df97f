package soak

import (
	"context"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

const shortLength = 15 * time.Second

var (
	length = flag.Duration("soak", shortLength, "how long the mixed clients run")
	seed   = flag.Uint64("seed", 1, "of what the clients do")
	path   = flag.String("hopbench", "", "program to hold against the clients; empty builds it")
	only   = flag.String("only", "", "expression that the names of bad clients match; others do not come")
)

const (
	// workers do what ordinary clients do, and badWorkers what bad ones do.
	workers    = 8
	badWorkers = badAddresses
	// settle bounds the time in which a server has to be rid of its last
	// clients: the longest deadline of docs/protocol.md is 15 s, for START, and
	// 5 s more for the end.
	settle = 40 * time.Second
	// A server's memory may be larger in the last third than in the first by
	// this factor and this much: the collector's own swing.
	memoryFactor, memorySlack = 1.5, 16 << 20
	// The Go runtime keeps threads for later use, so they do not come back; they
	// must not grow with time.
	threadFactor, threadSlack = 1.5, 8
)

func TestSoak(t *testing.T) {
	s := startServer(t, *path)
	m := newMix(t, s, *seed)
	m.warmUp(t)
	idle := s.idle(t)
	t.Logf("idle: %v; %v of %d ordinary and %d bad clients at a time, seed %d", idle, *length, workers, badWorkers, *seed)

	samples := func() []sample {
		defer m.report(t) // also when the server is gone
		return s.watchWhile(t, *length, m.run)
	}()
	if n := int(m.dealt.Load()); n < len(m.deeds) {
		t.Logf("%d of %d kinds of bad clients came", n, len(m.deeds))
		if *length > time.Minute {
			t.Error("the server held so many of them that others did not come")
		}
	}
	m.honest.judge(t, *length > shortLength)
	end := s.settled(t, idle)
	t.Logf("settled: %v", end)
	judgeSamples(t, samples, idle, end)
	s.log.judge(t, *length)
	for _, spec := range []measurement.Spec{{Kind: measurement.RR}, {Kind: measurement.TCP, Flows: 4}} {
		if err := m.measure(t.Context(), s.v4.Addr(), spec); err != nil {
			t.Errorf("a fresh client is not served: %v", err)
		}
	}
	for _, kind := range []string{"native tcp", "native rr"} {
		if m.count(kind, served) == 0 {
			t.Errorf("no ordinary client was served: %s", kind)
		}
	}
}

// judgeSamples compares what the server used at the end with the beginning.
func judgeSamples(t *testing.T, samples []sample, idle, end sample) {
	t.Helper()
	third := (len(samples) + 2) / 3
	first, last := samples[:third], samples[len(samples)-third:]
	for _, of := range []struct {
		what  string
		bytes func(sample) float64
	}{
		{"memory", func(s sample) float64 { return s.resident }},
		{"memory of the control group", func(s sample) float64 { return s.group }},
	} {
		before, after := median(first, of.bytes), median(last, of.bytes)
		if after == 0 {
			continue // it has none
		}
		bound := memoryFactor*before + memorySlack
		t.Logf("%s: %.1f MB in the first third, %.1f MB in the last, bound %.1f MB; peak %.1f MB", of.what, before/1e6, after/1e6, bound/1e6, peak(samples, of.bytes)/1e6)
		if after > bound {
			t.Errorf("the server's %s grows", of.what)
		}
	}
	descriptors, threads := func(s sample) float64 { return float64(s.descriptors) }, func(s sample) float64 { return float64(s.threads) }
	t.Logf("peaks: %.0f descriptors, %.0f threads", peak(samples, descriptors), peak(samples, threads))
	if end.descriptors > idle.descriptors {
		t.Errorf("%d descriptors are left open %v after the last client, %d were at the start", end.descriptors, settle, idle.descriptors)
	}
	if limit := threadFactor*peak(first, threads) + threadSlack; float64(end.threads) > limit {
		t.Errorf("%d threads at the end, at most %.0f in the first third; bound %.0f", end.threads, peak(first, threads), limit)
	}
}

// watchWhile samples the server while work goes on, and shows a dozen samples.
func (s *server) watchWhile(t *testing.T, d time.Duration, work func(context.Context)) []sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	defer working.Wait()
	defer cancel() // before the wait, also when the server is gone
	tick := time.NewTicker(max(min(d/60, 5*time.Second), 100*time.Millisecond))
	defer tick.Stop()
	samples := []sample{s.sample(t)}
	shown := time.Now()
	for {
		select {
		case <-ctx.Done():
			return samples
		case <-tick.C:
			now := s.sample(t)
			samples = append(samples, now)
			if time.Since(shown) >= d/12 {
				shown = time.Now()
				t.Log(now)
			}
		}
	}
}

func median(samples []sample, of func(sample) float64) float64 {
	all := values(samples, of)
	slices.Sort(all)
	return all[len(all)/2]
}

func peak(samples []sample, of func(sample) float64) float64 { return slices.Max(values(samples, of)) }

func values(samples []sample, of func(sample) float64) []float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	return all
}
