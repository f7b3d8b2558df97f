package trial

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// This file tells a pair that its path failed from one of which an end is gone, stood still, or
// lost its address: a hole.

// newsTime is how long after an end is gone is waited for the testbed to say why. The
// kernel closes a dying process's connections before it tells the parent (do_exit in
// kernel/exit.c).
const newsTime = 500 * time.Millisecond

// findHoles looks for ends that are gone, stood still for a while, or lost their address, among
// those of the pairs that failed, or lack answers: the other end of a test sees that as a path
// that failed. Whoever answers is there.
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
	gone, stood, lost := map[string]error{}, map[string]time.Duration{}, map[string][]hostinfo.LostAddress{}
	addresses := t.addresses()
	var asking sync.WaitGroup
	asked := map[string]bool{}
	for k, pair := range t.path.Pairs {
		for _, name := range []string{pair.Source, pair.Destination} {
			if !t.lacks(k) || asked[name] {
				continue
			}
			asked[name] = true
			agent, err := t.bed.Agent(name)
			mortal, ok := agent.(testbed.Mortal)
			if err != nil || !ok {
				continue // an end that only serves
			}
			asking.Go(func() {
				still, without, err := mortal.Answers(context.WithoutCancel(ctx), time.Since(t.began), addresses[name]...)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					gone[name] = err
				} else if still > 0 {
					stood[name] = still
				}
				lost[name] = without
			})
		}
	}
	asking.Wait()
	for k, pair := range t.path.Pairs {
		for _, name := range []string{pair.Source, pair.Destination} {
			if still, is := stood[name]; is {
				t.stoodStill(k, name, still)
			}
			for _, l := range lost[name] {
				if t.lacks(k) && slices.Contains(ownAddresses(pair, name), l.Address) {
					t.lostAddress(k, l.Says(name))
				}
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

// lacks says that a pair brought back nothing, or lacks answers.
func (t *trial) lacks(k int) bool { return t.failed[k] != nil || t.unanswered[k] > 0 }

// lostAddress has a pair be a hole that lacks what it does as an end has lost its address.
func (t *trial) lostAddress(k int, op string) {
	why := t.failed[k]
	switch {
	case why == nil:
		why = fmt.Errorf("%d requests had no answer", t.unanswered[k])
	case !probe.ReasonOf(why).OfPath():
		return
	}
	t.failed[k] = &probe.Error{Op: op, Reason: probe.Local, Err: why}
}

// addresses are those at which the ends of such pairs are reached.
func (t *trial) addresses() map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for k, pair := range t.path.Pairs {
		if !t.lacks(k) {
			continue
		}
		for _, name := range []string{pair.Source, pair.Destination} {
			for _, a := range ownAddresses(pair, name) {
				if !slices.Contains(all[name], a) {
					all[name] = append(all[name], a)
				}
			}
		}
	}
	return all
}

// ownAddresses are those of an end of a pair that are known, on the path and below its tunnel.
func ownAddresses(pair testbed.Pair, name string) []netip.Addr {
	own := []netip.Addr{pair.Request.Target.Addr()}
	if name == pair.Source {
		own[0] = pair.Request.Source
	}
	if pair.Outer != nil && name == pair.Source {
		own = append(own, pair.Outer.Source)
	} else if pair.Outer != nil {
		own = append(own, pair.Outer.Destination.Addr())
	}
	own = slices.DeleteFunc(own, func(a netip.Addr) bool { return !a.IsValid() })
	for i, a := range own {
		own[i] = a.Unmap().WithZone("") // as interfaces have it
	}
	return own
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
