package switching

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// restoreTries is how often it is tried to bring all switches back.
const restoreTries = 2

// Restore brings the switches back to what the file says is to be left behind, or else to
// what was found at the start, by this program or by one that was killed; it returns
// what it restored. None of it is forgotten before all of it is done. Its context must
// be another than that of a run that was stopped. Then others may use the switches.
func (s *Switcher) Restore(ctx context.Context) (restored map[string]string, err error) {
	defer func() { err = errors.Join(err, s.release()) }()
	// What a trial saw that is not confirmed is nobody's.
	_ = s.endWatch()
	s.inForce = ""
	found, own := s.found, s.found != nil
	if !own {
		if found, err = s.leftBehind(); err != nil {
			return nil, err
		}
	}
	var back []need
	for _, w := range s.used() {
		value := cmp.Or(w.Restore, found[w.Name])
		if value == "" || own && !s.commanded[w.Name] && s.state[w.Name] == value {
			continue
		}
		back = append(back, need{w, value})
	}
	for range restoreTries {
		if restored, err = s.bringBack(ctx, back); err == nil {
			err = s.stay(ctx, back)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return restored, fmt.Errorf("restore the switches: %w; what they were at is kept in %s: once the reason is gone, run hopbench testbed restore", err, s.o.Journal)
	}
	if err := os.Remove(s.o.Journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return restored, fmt.Errorf("the switches are restored; forget what they were at: %w", err)
	}
	s.found = nil
	clear(s.commanded)
	clear(s.unsettled)
	clear(s.underWay)
	return restored, nil
}

// bringBack sets all switches, whatever becomes of one of them, and proves what can be
// proven of that.
func (s *Switcher) bringBack(ctx context.Context, back []need) (map[string]string, error) {
	restored := map[string]string{}
	var failed []error
	for _, n := range back {
		err := s.set(ctx, n)
		if err == nil && n.Proof != inventory.ProofTrace {
			err = s.provenBack(ctx, s.pathOf(n.Name), []need{n})
		}
		if err == nil {
			restored[n.Name] = n.value
		}
		failed = append(failed, err)
	}
	err := errors.Join(failed...)
	if err != nil {
		return restored, err
	}
	for _, p := range s.o.Paths {
		if needs := s.needs(p.Name); slices.ContainsFunc(needs, byTrace) && s.at(needs) {
			return restored, s.provenBack(ctx, p.Name, needs)
		}
	}
	return restored, nil
}

// stay looks again and again at switches that were brought back, for as long as a command
// may still act that was not seen to, and brings back what does not stay.
func (s *Switcher) stay(ctx context.Context, back []need) error {
	began, until := time.Now(), time.Time{}
	for _, n := range back {
		t := latest(s.unsettled[n.Name], s.underWay[n.Name])
		if longest := began.Add(2 * n.Timeout); t.After(longest) {
			t = longest // by a clock that was set back
		}
		until = latest(until, t)
	}
	for wait := firstPoll; time.Now().Before(until); wait = min(2*wait, lastPoll) {
		if !sleep(ctx, min(wait, time.Until(until))) {
			return ctx.Err()
		}
		if moved := s.moved(ctx, back); len(moved) > 0 {
			if _, err := s.bringBack(ctx, moved); err != nil {
				return err
			}
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// moved are those values that are not in force any more, as far as that can be seen.
func (s *Switcher) moved(ctx context.Context, back []need) (moved []need) {
	for _, n := range back {
		limited, cancel := context.WithTimeout(ctx, n.Timeout)
		v, err := s.read(limited, n)
		if err == nil && v == n.value {
			switch {
			case n.Proof == inventory.ProofCommand, n.Proof == inventory.ProofCanary && s.o.Canary != nil:
				_, err = s.check(limited, s.pathOf(n.Name), n)
			case n.Proof == inventory.ProofTrace:
				err = s.traceRestored(limited, n)
			}
			if !refuted(n, err) {
				err = nil
			}
		}
		cancel()
		if err != nil || v != n.value {
			moved = append(moved, n)
		}
	}
	return moved
}

// traceRestored traces a path that a value is in force for, if there is one that is known.
func (s *Switcher) traceRestored(ctx context.Context, n need) error {
	for _, p := range s.o.Paths {
		if p.Set[n.Name] == n.value && s.at(s.needs(p.Name)) && s.shows[traced{p.Name, p.Name}] != "" {
			_, err := s.check(ctx, p.Name, n)
			return err
		}
	}
	return nil
}

// provenBack proves values over a path, as far as there is what that takes: a later
// program has no ends that could trace, and ends that are gone say nothing. A rehearsal that
// was refused has learned what some paths show.
func (s *Switcher) provenBack(ctx context.Context, path string, needs []need) error {
	for _, n := range needs {
		if n.Proof == inventory.ProofTrace && s.shows[traced{path, path}] == "" || n.Proof == inventory.ProofCanary && s.o.Canary == nil {
			return nil
		}
	}
	for _, n := range toProve(needs) {
		if _, err := s.check(ctx, path, n); err != nil && !refuted(n, err) {
			return nil
		}
	}
	_, err := s.proven(ctx, path, needs)
	return err
}

// pathOf is a path that a switch is set for.
func (s *Switcher) pathOf(name string) string {
	for _, p := range s.o.Paths {
		if _, sets := p.Set[name]; sets {
			return p.Name
		}
	}
	return ""
}

// at says that all values are in force as far as is known.
func (s *Switcher) at(needs []need) bool {
	return !slices.ContainsFunc(needs, func(n need) bool { return s.state[n.Name] != n.value })
}
