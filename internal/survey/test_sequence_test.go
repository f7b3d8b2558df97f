package survey

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/result"
)

// do does a plan on a path and returns its trials; err is that of every test.
func do(t interface{ Fatalf(string, ...any) }, p *Plan, on path, err error) (done []experiment.PlannedTrial) {
	for {
		left := len(p.Left())
		next, ok := p.Next()
		if !ok {
			if left != 0 {
				t.Fatalf("%d trials are left at the end", left)
			}
			return done
		}
		if len(done) > 200 || left == 0 {
			t.Fatalf("%d trials, and %d are left", len(done), left)
		}
		done = append(done, next)
		trial := on(result.TestInfo{Name: next.Test, Spec: next.Spec}).Trial
		trial.ID, trial.Block, trial.Test = next.ID, next.Block, next.Test
		p.Done(trial, err)
	}
}

// Every block has the tests of the first, as they were, each once; whatever was
// foreseen is never less than what comes.
func TestPlanRepeatsTheFirstBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 5).Draw(t, "blocks")
		bottleneck := rapid.Float64Range(1e9, 1e11).Draw(t, "bottleneck")
		p := NewPlan("p", Options{}, blocks, rapid.Uint64().Draw(t, "seed"))
		foreseen := len(p.Left())
		done := do(t, p, perFlow(1e9, bottleneck), nil)
		tests := len(p.Steps())
		if len(done) != blocks*tests || foreseen < len(done) {
			t.Fatalf("%d trials of %d tests in %d blocks, %d foreseen", len(done), tests, blocks, foreseen)
		}
		ids := map[string]bool{}
		for i, trial := range done {
			first := p.Steps()[slices.IndexFunc(p.Steps(), func(s Step) bool { return s.Test.Name == trial.Test })].Test
			if trial.Order != i+1 || trial.Block != i/tests+1 || trial.Spec != first.Spec || trial.ID != fmt.Sprintf("b%02d-p-%s", trial.Block, trial.Test) {
				t.Fatalf("trial %d: %+v, first %+v", i+1, trial, first)
			}
			ids[trial.ID] = true
		}
		if len(ids) != len(done) {
			t.Fatalf("%d ids of %d trials", len(ids), len(done))
		}
	})
}

// Where no server can be used, nothing is repeated.
func TestPlanWithoutAServer(t *testing.T) {
	failed := perFlow(1, 1).but(true, "path", "mtu", "ping")
	unauthorized := fmt.Errorf("wrapped: %w", &probe.Error{Reason: probe.Unauthorized, Err: errors.New("no")})
	if done := do(t, NewPlan("p", Options{}, 3, 1), failed, unauthorized); len(done) != 3 {
		t.Errorf("%d trials: %+v", len(done), done)
	}
}

// Tests are repeated of which one found no server and another did: it may have been one packet
// that was lost, or each may need a server of its own.
func TestPlanRepeatsWhatOneServerAnswered(t *testing.T) {
	tests := List{{Name: "tcp", Spec: measurement.Spec{Kind: measurement.TCP}}, {Name: "rr", Spec: measurement.Spec{Kind: measurement.RR}}}
	silent := &probe.Error{Op: "connect", Reason: probe.TimedOut, Err: &net.OpError{Op: "dial", Net: "tcp4", Err: os.ErrDeadlineExceeded}}
	for name, want := range map[string]int{"tcp": 6, "rr": 6, "tcp rr": 2} {
		p, done := NewPlan("p", tests, 3, 1), 0
		for next, ok := p.Next(); ok; next, ok = p.Next() {
			if len(p.Left()) == 0 {
				t.Fatalf("no server for %s: nothing is left before trial %d", name, done+1)
			}
			fails := next.Block == 1 && strings.Contains(name, next.Test)
			trial := measurement.Trial{ID: next.ID, Block: next.Block, Test: next.Test, Gate: measurement.Gate{Passed: !fails}}
			if fails {
				p.Done(trial, silent)
			} else {
				p.Done(trial, nil)
			}
			done++
		}
		if done != want || len(p.Left()) > 0 {
			t.Errorf("no server for %s: %d trials and %d left, want %d", name, done, len(p.Left()), want)
		}
	}
}

// Until a test that explains has ended, it is left.
func TestPlanForeseesATestThatExplains(t *testing.T) {
	tests := List{{Name: "tcp", Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}}
	if done := do(t, NewPlan("path", Explained{tests}, 1, 1), limited(false), nil); len(done) != 3 {
		t.Errorf("%d trials: %+v", len(done), done)
	}
}

// A test that lacks one more connection shows that there is a server.
func TestServerThatAllowsNoMoreConnections(t *testing.T) {
	first := &probe.Error{Op: "connect", Reason: probe.TimedOut, Err: &net.OpError{Op: "dial", Net: "tcp4", Err: os.ErrDeadlineExceeded}}
	if got := NoServer(first); got != probe.TimedOut {
		t.Errorf("of the first connection: %q", got)
	}
	if got := NoServer(session.OfFlow(8, 16, first)); got != "" {
		t.Errorf("of the ninth: %q", got)
	}
}
