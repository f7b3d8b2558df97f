package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// This file tells a pair that its path failed from one of which an end is gone, or stood
// still: a hole.

// newsTime is how long after an end is gone is waited for the testbed to say why. The
// kernel closes a dying process's connections before it tells the parent (do_exit in
// kernel/exit.c).
const newsTime = 500 * time.Millisecond

// findHoles looks for ends that are gone, or stood still for a while, among those of the
// pairs that failed: the other end of a test sees that as a path that failed. Whoever answers
// is there.
func (t *trial) findHoles(ctx context.Context) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // by who stops the trial, or a testbed that broke, which says why
	}
	if stood := t.own.Longest(time.Since(t.began)); stood > 0 {
		for k := range t.failed {
			t.stoodStill(k, "this process", stood)
		}
	}
	var mu sync.Mutex
	gone, stood := map[string]error{}, map[string]time.Duration{}
	var asking sync.WaitGroup
	asked := map[string]bool{}
	for k, pair := range t.path.Pairs {
		for _, name := range []string{pair.Source, pair.Destination} {
			if t.failed[k] == nil || asked[name] {
				continue
			}
			asked[name] = true
			agent, err := t.bed.Agent(name)
			mortal, ok := agent.(testbed.Mortal)
			if err != nil || !ok {
				continue // an end that only serves
			}
			asking.Go(func() {
				still, err := mortal.Answers(context.WithoutCancel(ctx), time.Since(t.began))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					gone[name] = err
				} else if still > 0 {
					stood[name] = still
				}
			})
		}
	}
	asking.Wait()
	for k, pair := range t.path.Pairs {
		for _, name := range []string{pair.Source, pair.Destination} {
			if still, is := stood[name]; is {
				t.stoodStill(k, name, still)
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	select {
	case <-t.bed.Done():
	case <-time.After(newsTime):
	}
	fault, _ := errors.AsType[*testbed.Fault](t.bed.Err())
	for k, pair := range t.path.Pairs {
		for _, name := range []string{pair.Source, pair.Destination} {
			why, is := gone[name]
			if t.failed[k] == nil || !is {
				continue
			}
			if fault != nil && slices.Contains(fault.Ends, name) {
				why = fault
			}
			t.failed[k] = &probe.Error{Op: name + " is gone", Reason: probe.Local, Err: why}
			break
		}
	}
}

// stoodStill has a pair that failed by silence be a hole, whose deadlines passed while somebody
// did not run. What a host refuses, or a router, it refuses all the same.
func (t *trial) stoodStill(k int, who string, still time.Duration) {
	switch probe.ReasonOf(t.failed[k]) {
	case probe.TimedOut, probe.Vanished:
		t.failed[k] = &probe.Error{Op: who + " stood still", Reason: probe.Local, Err: fmt.Errorf(
			"it did not run for %v: its process was stopped, or its machine paused", still.Round(100*time.Millisecond))}
	}
}

// hole says that a pair brought back nothing, and that its path is not why.
func (t *trial) hole(k int) bool {
	return t.failed[k] != nil && !probe.ReasonOf(t.failed[k]).OfPath()
}

// goesOn says that pairs of a path can measure although the testbed broke: only ends of
// others are gone.
func goesOn(bed testbed.Testbed, path string) bool {
	fault, _ := errors.AsType[*testbed.Fault](bed.Err())
	p, err := pathOf(bed, path)
	return fault != nil && len(fault.Ends) > 0 && err == nil && slices.ContainsFunc(p.Pairs, func(pair testbed.Pair) bool {
		return !slices.Contains(fault.Ends, pair.Source) && !slices.Contains(fault.Ends, pair.Destination)
	})
}
