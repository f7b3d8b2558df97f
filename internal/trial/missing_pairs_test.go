package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
)

// What may become of a pair.
const (
	wellBehaved     = "well"
	early           = "has what it wanted before the others"
	goneBefore      = "the source is gone before the trace"
	goneMeanwhile   = "the source dies in the test"
	asleep          = "the source stops before it is prepared"
	asleepMeanwhile = "the source stops in the test"
	refused         = "the destination's server is full"
	serverGone      = "the destination dies in the test"
	sourceStill     = "the source stands still for a while"
	serverStill     = "the destination stands still for a while"
	addressLost     = "the destination loses its address"
	reset           = "the path resets"
	unheard         = "the path is silent"
	closedStill     = "the path refuses, and the source stands still for a while"
)

var (
	holes        = []string{goneBefore, goneMeanwhile, asleep, asleepMeanwhile, refused, serverGone, sourceStill, serverStill, addressLost}
	pathFailures = []string{reset, unheard, closedStill}
)

// crowd is a testbed of one path with a pair for each of its fates.
type crowd struct {
	fates []string
	done  chan struct{}
	fault error
}

func newCrowd(fates []string) *crowd { return &crowd{fates: fates, done: make(chan struct{})} }

func (c *crowd) Info() result.Testbed           { return result.Testbed{Relative: true} }
func (c *crowd) Environment() map[string]string { return nil }
func (c *crowd) Facts() []string                { return nil }
func (c *crowd) Done() <-chan struct{}          { return c.done }
func (c *crowd) Close() error                   { return nil }

func (c *crowd) Err() error {
	select {
	case <-c.done:
		return c.fault
	default:
		return nil
	}
}

var there = netip.MustParseAddr("192.0.2.1")

func (c *crowd) Paths() []testbed.Path {
	path := testbed.Path{Name: "p"}
	for k := range c.fates {
		path.Pairs = append(path.Pairs, testbed.Pair{
			Source: fmt.Sprintf("c%d", k+1), Destination: fmt.Sprintf("s%d", k+1), Expect: testbed.Expectation{Hops: [][]netip.Addr{{there}}},
			Request: probe.Request{Target: netip.AddrPortFrom(there, 1)},
		})
	}
	return []testbed.Path{path}
}

func (c *crowd) Agent(name string) (testbed.Agent, error) {
	var end string
	var k int
	if _, err := fmt.Sscanf(name, "%1s%d", &end, &k); err != nil {
		return nil, err
	}
	return &one{crowd: c, fate: c.fates[k-1], source: end == "c"}, nil
}

// one is an end of a pair.
type one struct {
	*crowd
	fate   string
	source bool
}

var errEnded = errors.New("the control connection to the agent ended: EOF")

func (o *one) Answers(_ context.Context, _ time.Duration, own ...netip.Addr) (time.Duration, []hostinfo.LostAddress, error) {
	gone := []string{goneBefore, goneMeanwhile, asleep, asleepMeanwhile}
	if !o.source {
		gone = []string{serverGone}
	}
	if slices.Contains(gone, o.fate) {
		return 0, nil, errEnded
	}
	if !o.source && o.fate == addressLost && slices.Equal(own, []netip.Addr{there}) {
		return 0, []hostinfo.LostAddress{{Address: there}}, nil
	}
	if o.source && (o.fate == sourceStill || o.fate == closedStill) || !o.source && o.fate == serverStill {
		return 8 * time.Second, nil, nil
	}
	return 0, nil, nil
}

func (o *one) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	ended := &probe.Error{Op: "agent: run", Reason: probe.Local, Err: errEnded}
	cancelled := func() error {
		reason := probe.Cancelled
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			reason = probe.TimedOut
		}
		return &probe.Error{Op: "agent: run", Reason: reason, Err: context.Cause(ctx)}
	}
	if o.fate == goneBefore {
		return measurement.Outcome{}, ended
	}
	if r.Spec.Kind == measurement.Trace {
		return measurement.Outcome{Hops: []measurement.TraceHop{{TTL: 1, Address: there.String(), Reached: true}}}, nil
	}
	switch o.fate {
	case refused:
		return measurement.Outcome{}, &probe.Error{Op: "connect", Reason: probe.Limit, Err: errors.New("full")}
	case asleep:
		<-ctx.Done()
		return measurement.Outcome{}, cancelled()
	}
	if r.Prepared != nil { // one of several
		if _, err := r.Prepared(ctx); err != nil {
			return measurement.Outcome{}, cancelled()
		}
	}
	began := time.Now()
	sleep := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	progress(measurement.Progress{Throughput: 1e6, RTT: 1e-3})
	if !sleep(500 * time.Millisecond) {
		return measurement.Outcome{}, cancelled()
	}
	switch o.fate {
	case early:
		out := steadyPair(1e6, 0).outcome
		out.Started = began
		return out, nil
	case goneMeanwhile:
		return measurement.Outcome{}, ended
	case asleepMeanwhile:
		<-ctx.Done()
		return measurement.Outcome{}, cancelled()
	case serverGone, reset:
		return measurement.Outcome{}, &probe.Error{Op: "flow 1 of 1", Reason: probe.Vanished, Err: syscall.ECONNRESET}
	case closedStill:
		return measurement.Outcome{}, &probe.Error{Op: "flow 1 of 1", Reason: probe.Refused, Err: syscall.ECONNREFUSED}
	case unheard, sourceStill, serverStill, addressLost:
		sleep(3 * time.Second)
		return measurement.Outcome{}, &probe.Error{Op: "flow 1 of 1", Reason: probe.TimedOut, Err: errors.New("silent")}
	}
	if !sleep(500 * time.Millisecond) {
		return measurement.Outcome{}, cancelled()
	}
	progress(measurement.Progress{Throughput: 2e6, RTT: 1e-3})
	out := steadyPair(1e6, 0).outcome
	out.Started = began
	return out, nil
}

// Whatever becomes of some pairs, the others bring what they measured, each that lacks is
// named with its cause, and the trial is judged by what it lacks: by its path, or by holes.
func TestPairsThatLack(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 17))
	for n := range 400 {
		fates := make([]string, 2+rng.IntN(8))
		lacking, broken := 0, 0
		allowed := rng.IntN(3)
		for k := range fates {
			switch fates[k] = wellBehaved; rng.IntN(6) {
			case 0, 1:
				fates[k] = holes[rng.IntN(len(holes))]
				lacking++
			case 2:
				if n%2 == 0 {
					fates[k] = pathFailures[rng.IntN(len(pathFailures))]
					broken++
				}
			}
		}
		good := len(fates) - lacking - broken
		allowed = min(allowed, len(fates)-1)
		synctest.Test(t, func(t *testing.T) {
			spec := combineSpec
			spec.MissingPairs = allowed
			began := time.Now()
			d, err := Do(t.Context(), newCrowd(fates), Wanted{ID: "t", Path: "p", Spec: spec}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%q took %v", fates, took)
			}
			missing := lacking > allowed
			if d.Gate.Broken != (broken > 0 && !missing) || d.Gate.Passed != (broken == 0 && !missing) {
				t.Errorf("%q, of which %d may lack: %+v", fates, allowed, d.Gate)
			}
			if gate.NoResult(d.Gate) != (missing && broken == 0) {
				t.Errorf("%q, of which %d may lack, is to be done again: %v", fates, allowed, !missing)
			}
			if got, want := d.Outcome.Metrics["goodput_bits_per_second"], float64(good)*8e8; good > 0 && (got < 0.999*want || got > 1.001*want) {
				t.Errorf("%q carried %g together, want %g", fates, got, want)
			}
			if good > 0 && !d.Fingerprint.Matches {
				t.Errorf("%q: fingerprint %+v", fates, d.Fingerprint.Why)
			}
			for k, p := range d.Outcome.Pairs {
				if _, measured := p.Metrics["goodput_bits_per_second"]; measured != (fates[k] == wellBehaved) || (p.Error == "") != measured {
					t.Errorf("%q: pair %d brought %v, %q", fates, k+1, p.Metrics, p.Error)
				}
				if gate.Hole(p) != slices.Contains(holes, fates[k]) {
					t.Errorf("%q: pair %d is a hole: %v (%s: %s)", fates, k+1, gate.Hole(p), p.Failure, p.Error)
				}
				if fates[k] == serverGone && !strings.Contains(p.Error, fmt.Sprintf("s%d is gone", k+1)) {
					t.Errorf("the server of pair %d died: %s", k+1, p.Error)
				}
			}
		})
	}
}

// The only pair fails by its path, or lacks an end, as one of several does.
func TestTheOnlyPair(t *testing.T) {
	for _, fate := range append([]string{reset, closedStill}, holes...) {
		synctest.Test(t, func(t *testing.T) {
			d, err := Do(t.Context(), newCrowd([]string{fate}), Wanted{ID: "t", Path: "p", Spec: combineSpec}, func(measurement.Progress) {})
			says := words.Findings(d.Gate, false)
			path := fate == reset || fate == closedStill
			if err != nil || d.Gate.Passed || d.Gate.Broken != path || strings.Contains(says, "s1 is gone") != (fate == serverGone) ||
				strings.Contains(says, "s1 stood still") != (fate == serverStill) ||
				strings.Contains(says, "s1 has lost its address 192.0.2.1: ") != (fate == addressLost) {
				t.Errorf("%s: %v, broken %v: %s", fate, err, d.Gate.Broken, says)
			}
		})
	}
}

// Where no pair has a result since their ends died after the traces, it is not said that a trace
// failed.
func TestAllPairsLackAfterTheirTraces(t *testing.T) {
	for fate, matches := range map[string]bool{goneMeanwhile: true, addressLost: true, goneBefore: false} {
		synctest.Test(t, func(t *testing.T) {
			d, err := Do(t.Context(), newCrowd([]string{goneBefore, fate}), Wanted{ID: "t", Path: "p", Spec: combineSpec}, nil)
			says := words.Findings(d.Gate, false)
			if err != nil || d.Fingerprint.Matches != matches || strings.Contains(says, "trace failed") == matches || !gate.NoResult(d.Gate) {
				t.Errorf("%s: %v, %+v: %s", fate, err, d.Fingerprint, says)
			}
		})
	}
}

// A pair that never gets ready holds up the others for as long as their servers wait, and
// not for the time of the trial.
func TestNobodyWaitsForAStraggler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := combineSpec
		spec.MissingPairs = 1
		began := time.Now()
		d, err := Do(t.Context(), newCrowd([]string{wellBehaved, asleep, wellBehaved}), Wanted{ID: "t", Path: "p", Spec: spec}, nil)
		if took, most := time.Since(began), stragglers(spec, 3)+10*time.Second; err != nil || !d.Gate.Passed || took > most {
			t.Errorf("%v, %+v after %v, at most %v", err, d.Gate, took, most)
		}
	})
}

// A pair that failed, or has done what it was to, moves nothing any more, and whoever watches
// does not see its last rate until the end of the trial.
func TestAPairThatEndedIsNotShownToGoOn(t *testing.T) {
	for _, fate := range []string{reset, early} {
		synctest.Test(t, func(t *testing.T) {
			var last measurement.Progress
			_, err := Do(t.Context(), newCrowd([]string{wellBehaved, fate}), Wanted{ID: "t", Path: "p", Spec: combineSpec}, func(p measurement.Progress) { last = p })
			if err != nil || len(last.Pairs) != 2 || last.Throughput != 2e6 || last.Pairs[1].Throughput != 0 || last.Pairs[1].RTT != 0 {
				t.Errorf("%s: %v, shown last: %+v", fate, err, last)
			}
		})
	}
}

// A testbed that says who died is believed: pairs of other ends go on, and the reason is
// its own. One whose hop died ends the trial at once, and the path is to blame.
func TestPairsOnATestbedThatBreaks(t *testing.T) {
	for _, hop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			bed := newCrowd([]string{wellBehaved, goneMeanwhile, wellBehaved})
			bed.fault = &testbed.Fault{Ends: []string{"c2"}, Err: errors.New("endpoint c2 died: it was killed")}
			if hop {
				bed.fates[1] = wellBehaved
				bed.fault = &testbed.Fault{Paths: []string{"p"}, Err: errors.New("hop fw died")}
			}
			time.AfterFunc(400*time.Millisecond, func() { close(bed.done) })
			d, err := Do(t.Context(), bed, Wanted{ID: "t", Path: "p", Spec: combineSpec}, nil)
			if err != nil {
				t.Fatal(err)
			}
			says := words.Findings(d.Gate, false)
			if hop && (!d.Gate.Broken || gate.NoResult(d.Gate) || !strings.Contains(says, "hop fw died")) {
				t.Errorf("%+v: %s", d.Gate, says)
			}
			if !hop && (!gate.NoResult(d.Gate) || !strings.Contains(says, "2 of 3 pairs") || !strings.Contains(says, "it was killed")) {
				t.Errorf("%+v: %s", d.Gate, says)
			}
		})
	}
}
