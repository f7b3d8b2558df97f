// Package switching brings paths into force by commands of the user's, proves that they
// are, and leaves behind what it found. It knows no agents: who traces a path or sends a
// canary request is handed in.
//
// A switch that does nothing would look like a hop that costs nothing. So no path counts
// as in force because a command said so: its read command must print the value, and its
// proof must hold, before and after every trial. What a trace must show is learned in a
// rehearsal of all paths, before the first trial, and what does not tell two paths apart
// proves neither.
package switching

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Options are what a Switcher works with.
type Options struct {
	Switches []inventory.Switch
	// Paths are all of the testbed; those that set no switch are always in force.
	Paths []inventory.Path
	// Dir is the folder in which commands run.
	Dir string
	// Journal is the file that keeps the values found at the start until they are
	// restored, see JournalOf.
	Journal string
	// Run runs a command; nil is Exec.
	Run func(ctx context.Context, c Command) (stdout string, err error)
	// Trace says what a trace of a path shows now: its hops with spaces between, Silent
	// for one that did not answer; required for ProofTrace.
	Trace func(ctx context.Context, path string) (shows string, err error)
	// Canary sends the canary request of a switch over a path; required for
	// ProofCanary.
	Canary func(ctx context.Context, path string, s inventory.Switch) (inventory.CanaryAnswer, error)
}

const (
	// inARow is how often a proof has to hold one time after the other: a device that
	// is changing answers one way and then the other.
	inARow = 3
	// Polls begin often, for what acts at once, and become rare.
	firstPoll, lastPoll = 50 * time.Millisecond, 2 * time.Second
	// betweenProofs is the time between two of inARow.
	betweenProofs = 100 * time.Millisecond
)

// Switcher brings paths into force. It is for one goroutine at a time.
type Switcher struct {
	o Options
	// found are the values that switches had at the start, nil before they were read,
	// and state those that they have as far as is known.
	found, state map[string]string
	// commanded are the switches whose commands were run.
	commanded map[string]bool
	// unsettled is until when commands may still act that were given up, and underWay
	// until when one may that was not seen to act yet.
	unsettled, underWay map[string]time.Time
	// inForce is the path that was brought into force and proven, empty where that is
	// not known.
	inForce string
	visits  []Visit
	refused error // why the rehearsal failed
	// shows is what a trace of one path showed while another was in force.
	shows map[traced]string
	// readTook is how long the last read command of a switch took.
	readTook map[string]time.Duration
	watch    *watch
	// lock keeps other coordinators from the switches, nil where no path needs one.
	lock io.Closer
}

// traced is a path that was traced while another was in force.
type traced struct{ path, inForce string }

// Visit is what bringing a path into force took in the rehearsal.
type Visit struct {
	Path string
	// Changed says that the path was not in force before.
	Changed  bool
	Took     time.Duration // commands and proof, without Settle
	Settle   time.Duration
	Proof    string
	Evidence string
}

// New makes a Switcher, which keeps other coordinators from the switches until Restore, the
// last that is called of it. It runs nothing.
func New(o Options) (*Switcher, error) {
	if o.Run == nil {
		o.Run = Exec
	}
	s := &Switcher{
		o: o, state: map[string]string{}, commanded: map[string]bool{}, unsettled: map[string]time.Time{}, underWay: map[string]time.Time{},
		shows: map[traced]string{}, readTook: map[string]time.Duration{},
	}
	if len(s.used()) == 0 {
		return s, nil
	}
	var err error
	if s.lock, err = hold(o.Journal); err != nil {
		return nil, err
	}
	return s, nil
}

// need is a value that a switch must have.
type need struct {
	inventory.Switch
	value string
}

// needs are the values that bring a path into force, in the order of the file.
func (s *Switcher) needs(path string) (needs []need) {
	set := s.path(path).Set
	for _, w := range s.o.Switches {
		if v, ok := set[w.Name]; ok {
			needs = append(needs, need{w, v})
		}
	}
	return needs
}

// used are the switches that a path needs.
func (s *Switcher) used() (used []inventory.Switch) {
	for _, w := range s.o.Switches {
		if slices.ContainsFunc(s.o.Paths, func(p inventory.Path) bool { _, sets := p.Set[w.Name]; return sets }) {
			used = append(used, w)
		}
	}
	return used
}

// Switch brings a path into force and proves it, in the first call after a rehearsal. An
// error says which switch, which value, and what to do. A command that has begun goes on
// to its end and is proven also when ctx is over: what it did is then known.
func (s *Switcher) Switch(ctx context.Context, path string) (testbed.Switched, error) {
	s.endWatch()
	needs := s.needs(path)
	if len(needs) == 0 {
		return testbed.Switched{}, nil
	}
	if _, err := s.Rehearse(ctx); err != nil {
		return testbed.Switched{}, err
	}
	began := time.Now()
	was := s.inForce
	s.inForce = ""
	done := testbed.Switched{Set: map[string]string{}}
	for _, n := range needs {
		done.Set[n.Name] = n.value
	}
	evidence, err := "", error(nil)
	if was == path {
		evidence, err = s.holds(ctx, path, needs)
	}
	if was != path || err != nil {
		done.Changed = true
		for _, n := range needs {
			// After anything that is not known every command is run.
			if was != "" && was != path && s.state[n.Name] == n.value {
				if v, err := s.read(ctx, n); err == nil && v == n.value {
					continue
				}
			}
			done.Settle = max(done.Settle, n.Settle)
			if err := s.command(ctx, n); err != nil {
				return done, err
			}
		}
		evidence, err = s.proven(ctx, path, needs)
		s.settle(err == nil, needs...)
		if err != nil {
			return done, err
		}
	}
	if ctx.Err() != nil {
		return done, ctx.Err()
	}
	s.inForce = path
	done.Took, done.Proof, done.Evidence = time.Since(began), proofs(needs), evidence
	s.beginWatch(ctx, needs)
	return done, nil
}

// Confirm says whether a path that was brought into force still is, and whether it was
// all the while, as far as its read commands are fast enough to be asked meanwhile.
func (s *Switcher) Confirm(ctx context.Context, path string) error {
	flipped := s.endWatch()
	needs := s.needs(path)
	if len(needs) == 0 {
		return nil
	}
	was := s.inForce
	s.inForce = ""
	switch {
	case flipped != nil:
		return flipped
	case was != path:
		return fmt.Errorf("path %s is not in force: it has not been switched to", path)
	}
	if _, err := s.holds(ctx, path, needs); err != nil {
		return err
	}
	s.inForce = path
	return nil
}

// SwitchTime is about how long a switch to another path takes, its settling included; 0
// before the rehearsal.
func (s *Switcher) SwitchTime() time.Duration {
	var total time.Duration
	n := 0
	for _, v := range s.visits {
		if v.Changed {
			total += v.Took + v.Settle
			n++
		}
	}
	return total / time.Duration(max(1, n))
}

// holds says whether a path that is thought to be in force is: all read commands print
// its values, and all proofs hold. A proof may lose a packet, so it has some tries.
func (s *Switcher) holds(ctx context.Context, path string, needs []need) (evidence string, err error) {
	for _, n := range needs {
		limited, cancel := context.WithTimeout(ctx, n.Timeout)
		v, err := s.read(limited, n)
		cancel()
		if err != nil {
			return "", fmt.Errorf("switch %s: whether it still is at %s is not known: %w", n.Name, n.value, err)
		}
		if v != n.value {
			return "", movedAway(n, v)
		}
	}
	var seen []string
	for _, n := range toProve(needs) {
		limited, cancel := context.WithTimeout(ctx, n.Timeout)
		e, err := s.check(limited, path, n)
		for try := 1; err != nil && try < inARow && sleep(limited, betweenProofs); try++ {
			e, err = s.check(limited, path, n)
		}
		cancel()
		if err != nil {
			return "", fmt.Errorf("switch %s reads %s, and its proof (%s) does not hold any more: %w", n.Name, n.value, n.Proof, err)
		}
		seen = append(seen, e)
	}
	return joined(seen), nil
}

// movedAway is why a switch that was at its value is not.
func movedAway(n need, read string) error {
	return fmt.Errorf("switch %s was at %s and now reads %s: something else switches it; do not let others use it during a run", n.Name, n.value, quoted(read))
}

// toProve are the values with a proof of their own: one trace proves all those that a
// trace is to prove.
func toProve(needs []need) (out []need) {
	traced := false
	for _, n := range needs {
		if n.Proof != inventory.ProofTrace || !traced {
			out = append(out, n)
		}
		traced = traced || n.Proof == inventory.ProofTrace
	}
	return out
}

// proofs are how a path is proven.
func proofs(needs []need) string {
	var all []string
	for _, n := range needs {
		all = append(all, string(n.Proof))
	}
	return joined(all)
}

// joined are texts without repetition and without those that are empty.
func joined(texts []string) string {
	var out []string
	for _, t := range texts {
		if t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, "; ")
}

// sleep waits; false when ctx is over.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// poll tries until it succeeds; false when ctx is over before.
func poll(ctx context.Context, try func() bool) bool {
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		if ctx.Err() != nil {
			return false
		}
		if try() {
			return true
		}
		if !sleep(ctx, wait) {
			return false
		}
	}
}

// values lists the values of a switch.
func values(w inventory.Switch) string {
	return strings.Join(slices.Sorted(maps.Keys(w.Values)), ", ")
}
