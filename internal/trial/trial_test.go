package trial

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// slow is a testbed of one path whose tests take their time, and which may
// break meanwhile.
type slow struct {
	takes  time.Duration
	done   chan struct{}
	broken error
	seen   []string // what was done, in order
}

func (s *slow) Info() result.Testbed                { return result.Testbed{} }
func (s *slow) Environment() map[string]string      { return nil }
func (s *slow) Facts() []string                     { return nil }
func (s *slow) Agent(string) (testbed.Agent, error) { return s, nil }
func (s *slow) Done() <-chan struct{}               { return s.done }
func (s *slow) Err() error                          { return s.broken }
func (s *slow) Close() error                        { return nil }
func (s *slow) Progress(measurement.Progress)       { s.seen = append(s.seen, "progress") }
func (s *slow) Hops() []measurement.HopSeries       { return []measurement.HopSeries{{Name: "box"}} }
func (s *slow) Reset(context.Context, string) error { s.seen = append(s.seen, "reset"); return nil }
func (s *slow) Paths() []testbed.Path {
	return []testbed.Path{{Name: "p", Pairs: []testbed.Pair{{Source: "a", Destination: "b"}}}}
}

func (s *slow) Observe(context.Context, string, measurement.Spec) testbed.Observation {
	s.seen = append(s.seen, "observe")
	return s
}

func (s *slow) End(_ context.Context, o *measurement.Outcome, failed error) error {
	s.seen = append(s.seen, "end")
	o.Facts = append(o.Facts, "observed")
	return nil
}

func (s *slow) Run(ctx context.Context, _ probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	progress(measurement.Progress{})
	select {
	case <-time.After(s.takes):
		return measurement.Outcome{Metrics: measurement.Metrics{"hops_count": 1}}, nil
	case <-ctx.Done():
		return measurement.Outcome{}, context.Cause(ctx)
	}
}

var traceOfP = Wanted{ID: "t", Path: "p", Spec: measurement.Spec{Kind: measurement.Trace}}

// held counts the contexts that wait for its end.
type held struct {
	context.Context
	done     chan struct{}
	children *atomic.Int64
}

func (h held) Done() <-chan struct{} { return h.done }
func (h held) Value(any) any         { return nil }
func (h held) AfterFunc(func()) (stop func() bool) {
	h.children.Add(1)
	return func() bool {
		h.children.Add(-1)
		return true
	}
}

// A trial that is over leaves nothing that waits for the end of its run: there may be
// thousands of trials in one, and months of them in a watch.
func TestATrialLeavesNothing(t *testing.T) {
	for _, unlimited := range []bool{false, true} {
		ctx := held{t.Context(), make(chan struct{}), new(atomic.Int64)}
		w := traceOfP
		w.Unlimited = unlimited
		_, err := Do(ctx, &slow{done: make(chan struct{})}, w, func(measurement.Progress) {})
		testutil.OK(t, err)
		if n := ctx.children.Load(); n != 0 {
			t.Errorf("unlimited %v: %d contexts wait", unlimited, n)
		}
	}
}

// A trial of which is known how long it may take is given up then; one of which
// nothing is known takes as long as its test.
func TestTrialsThatTakeLong(t *testing.T) {
	for _, unlimited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := traceOfP
			w.Unlimited = unlimited
			d, err := Do(t.Context(), &slow{takes: time.Hour}, w, nil)
			if err != nil || (d.Err == nil) != unlimited || d.Gate.Passed != unlimited {
				t.Errorf("unlimited %v: %v, %v, gate %+v", unlimited, err, d.Err, d.Gate)
			}
			if !unlimited && !strings.Contains(d.Err.Error(), "no result within 15s") {
				t.Errorf("%v does not say for how long it was waited", d.Err)
			}
		})
	}
}

// A trial waits for as long as its test may take on a path slower than was expected.
func TestTestsThatTakeLong(t *testing.T) {
	for takes, spec := range map[time.Duration]measurement.Spec{
		time.Hour:        {Kind: measurement.FTP, FileBytes: 1e9},        // what comes to a stop ends by itself
		15 * time.Second: {Kind: measurement.MTU},                        // many round trips
		30 * time.Second: {Kind: measurement.TCP, Duration: 5, Flows: 8}, // connections over seconds
		50 * time.Second: {Kind: measurement.Load, Duration: 5},          // three tests on such a path
		40 * time.Second: {Kind: measurement.RR, Timeout: 30},            // the answer to the last request
	} {
		synctest.Test(t, func(t *testing.T) {
			w := traceOfP
			w.Spec = spec
			if d, err := Do(t.Context(), &slow{takes: takes}, w, nil); err != nil || d.Err != nil {
				t.Errorf("%s of %v: %v, %v", spec.Kind, takes, err, d.Err)
			}
		})
	}
}

// queued is a testbed with a path whose queues hold an answer for long.
type queued struct{ *slow }

func (queued) Paths() []testbed.Path {
	return []testbed.Path{{Name: "p", Pairs: []testbed.Pair{{Expect: testbed.Expectation{RoundTrip: 20 * time.Second}}}}}
}

// A trial waits for traces behind what the one before has left in queues.
func TestTrialsBehindQueues(t *testing.T) {
	for takes, counts := range map[time.Duration]bool{70 * time.Second: true, 80 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			d, err := Do(t.Context(), queued{&slow{takes: takes}}, traceOfP, nil)
			if err != nil || (d.Err == nil) != counts {
				t.Errorf("after %v: %v, %v", takes, err, d.Err)
			}
		})
	}
}

// away is a testbed whose ends may have no connection for a while.
type away struct{ *slow }

func (away) Away() time.Duration { return time.Minute }

// A result may come later by as long as its end may be away.
func TestTrialsOfThoseWhoAreAway(t *testing.T) {
	for takes, counts := range map[time.Duration]bool{time.Minute: true, 2 * time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			d, err := Do(t.Context(), away{&slow{takes: takes}}, traceOfP, nil)
			if err != nil || (d.Err == nil) != counts {
				t.Errorf("after %v: %v, %v", takes, err, d.Err)
			}
		})
	}
}

// A testbed that breaks ends the trial at once, with its reason.
func TestTrialOnATestbedThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Hour, done: make(chan struct{})}
		w := traceOfP
		w.Unlimited = true
		go func() {
			time.Sleep(time.Second)
			s.broken = errors.New("hop fw died")
			close(s.done)
		}()
		began := time.Now()
		d, err := Do(t.Context(), s, w, nil)
		if took := time.Since(began); err != nil || !errors.Is(d.Err, s.broken) || took != time.Second {
			t.Errorf("%v, %v after %v", err, d.Err, took)
		}
		if got := strings.Join(s.seen, " "); got != "reset reset observe progress end" || len(d.Outcome.Facts) != 1 {
			t.Errorf("%s, facts %q", got, d.Outcome.Facts)
		}
	})
}

// A clock that is set during a trial makes it missing; that it was wrong before does not.
func TestClockThatIsSet(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -2 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			offset := 5 * time.Second
			read := func(time.Time) time.Duration {
				defer func() { offset += step }()
				return offset
			}
			d, err := do(t.Context(), &slow{takes: time.Second}, traceOfP, nil, read)
			if err != nil || d.Gate.Passed != (step == 0) || d.Gate.Broken {
				t.Errorf("set by %v: %v, gate %+v", step, err, d.Gate)
			}
		})
	}
	// No clock is set here; Add moves both.
	if offset := clockOffset(time.Now().Add(-time.Hour)); offset.Abs() > time.Minute {
		t.Errorf("in an hour the clocks went apart by %v", offset)
	}
}

// Other runs are those of the trial's time.
func TestOtherRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := traceOfP
		w.Others = func() int { return 2 }
		d, err := Do(t.Context(), &slow{takes: time.Second}, w, nil)
		if err != nil || len(d.Gate.Findings) != 1 || d.Gate.Findings[0].Code != measurement.FoundOtherRun || d.Gate.Findings[0].Count != 2 {
			t.Errorf("%v, gate %+v", err, d.Gate)
		}
	})
}

// A trial that is stopped is none.
func TestTrialThatIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Do(ctx, &slow{takes: time.Hour}, traceOfP, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What makes a path is the path's, whatever the test would have.
func TestRequestTakesThePath(t *testing.T) {
	one := &trial{Wanted: Wanted{ID: "t"}, spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, DSCP: 10}}
	pair := testbed.Pair{Request: probe.Request{Spec: measurement.Spec{Device: "eth1", DSCP: 46}}}
	if got, want := one.request(pair), (measurement.Spec{Kind: measurement.TCP, Flows: 2, Device: "eth1", DSCP: 46}); !reflect.DeepEqual(got.Spec, want) {
		t.Errorf("got %+v, want %+v", got.Spec, want)
	}
	if got := one.request(testbed.Pair{}); !reflect.DeepEqual(got.Spec, one.spec) {
		t.Errorf("got %+v, want %+v", got.Spec, one.spec)
	}
}

// Who listens to a trial hears at most once a second what the hops count.
func TestProgressHasTheHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		progress := observed(&slow{}, func(p measurement.Progress) { heard += len(p.Hops) })
		for range 10 {
			time.Sleep(250 * time.Millisecond)
			progress(measurement.Progress{})
		}
		if heard != 2 {
			t.Errorf("it was said %d times in 2.5 s", heard)
		}
	})
}

// The sum of the pairs has each of them by its ends.
func TestProgressOfPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard measurement.Progress
		sum := newProgressSum([]testbed.Pair{{Source: "c1", Destination: "s1"}, {Source: "c2", Destination: "s2"}}, func(p measurement.Progress) { heard = p })
		sum.add(0, measurement.Progress{Throughput: 1, RTT: 2})
		time.Sleep(time.Second)
		sum.add(1, measurement.Progress{Throughput: 3, RTT: 1})
		if heard.Throughput != 4 || heard.RTT != 2 || len(heard.Pairs) != 2 || heard.Pairs[1] != (measurement.PairProgress{Source: "c2", Destination: "s2", Throughput: 3, RTT: 1}) {
			t.Errorf("%+v", heard)
		}
	})
}
