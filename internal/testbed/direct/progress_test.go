package direct_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testbed/direct"
)

// A test of one flow that moves 1 MB a second is told of second by second, with what is
// left at its end, also where it is stopped then.
func TestPartsOfATest(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var parts []direct.Part
			w := &direct.Watch{Every: time.Second, Tell: func(p direct.Part) { parts = append(parts, p) },
				Run: func(ctx context.Context, req probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
					start := time.Now()
					ended := req.Watch(start, []session.ReadFlow{func() (session.FlowCount, bool) {
						return session.FlowCount{Bytes: time.Since(start).Microseconds()}, true
					}})
					defer ended()
					select {
					case <-ctx.Done():
						return measurement.Outcome{}, ctx.Err()
					case <-time.After(2500 * time.Millisecond):
						return measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 8e6}}, nil
					}
				}}
			if stop {
				time.AfterFunc(2500*time.Millisecond-1, cancel)
			}
			_, err := w.Do(ctx, probe.Request{Spec: measurement.Spec{Kind: measurement.TCP}}, nil)
			if stopped := err != nil; stopped != stop {
				t.Fatal(err)
			}
			if len(parts) != 3 || parts[0].Bytes != 1e6 || parts[1].From != time.Second || parts[2].To-parts[2].From > time.Second/2 {
				t.Errorf("stopped %v: told %+v", stop, parts)
			}
			switch s := w.Stopped(); {
			case !stop && s != nil:
				t.Errorf("it was not stopped: %+v", s)
			case stop && (s == nil || s.Whole || s.Moved.Bytes < 2.4e6):
				t.Errorf("what there is of it: %+v", s)
			}
		})
	}
}

// Nothing is told of flows of which the system does not know what moved: not that it is nothing,
// nor a part of them for all.
func TestPartsOfFlowsThatAreNotKnown(t *testing.T) {
	known := func() (session.FlowCount, bool) { return session.FlowCount{Bytes: 1e6}, true }
	unknown := func() (session.FlowCount, bool) { return session.FlowCount{}, false }
	for _, c := range []struct {
		flows []session.ReadFlow
		told  bool
	}{{[]session.ReadFlow{unknown}, false}, {[]session.ReadFlow{unknown, known}, false}, {[]session.ReadFlow{known}, true}} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			w := &direct.Watch{Every: time.Second, Tell: func(direct.Part) { told++ }, Run: func(_ context.Context, req probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
				defer req.Watch(time.Now(), c.flows)()
				time.Sleep(2500 * time.Millisecond)
				return measurement.Outcome{}, nil
			}}
			_, _ = w.Do(t.Context(), probe.Request{Spec: measurement.Spec{Kind: measurement.TCP}}, nil)
			if (told > 0) != c.told {
				t.Errorf("of %d flows %d parts are told", len(c.flows), told)
			}
		})
	}
}

// What moved until a test failed is kept, also of a flow whose socket is gone by then, until
// the next test.
func TestWhatMovedUntilATestFailed(t *testing.T) {
	fail := errors.New("vanished")
	w := &direct.Watch{Run: func(_ context.Context, req probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
		var gone atomic.Bool
		flow := func(bytes int64, end bool) session.ReadFlow {
			return func() (session.FlowCount, bool) { return session.FlowCount{Bytes: bytes}, !end || !gone.Load() }
		}
		ended := req.Watch(time.Now(), []session.ReadFlow{flow(1e6, true), flow(2e6, false)})
		time.Sleep(1500 * time.Millisecond)
		gone.Store(true)
		ended()
		return measurement.Outcome{}, fail
	}, Every: time.Second, Tell: func(direct.Part) {}}
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []int64{3e6, 0} {
			_, _ = w.Do(t.Context(), probe.Request{Spec: measurement.Spec{Kind: measurement.TCP}}, nil)
			if p := w.Failed(); p.Bytes != want || w.Stopped() != nil {
				t.Errorf("%+v, want %d bytes", p, want)
			}
			fail = nil
		}
	})
}

// What kinds of test tell when they are stopped is kept: round trips end as if their time
// were over, ping tells along with its error, and others only fail.
func TestWhatStoppedTestsTell(t *testing.T) {
	some := measurement.Outcome{Metrics: measurement.Metrics{"rtt_p50_seconds": 1e-3}}
	for _, c := range []struct {
		kind  measurement.Kind
		whole bool
		run   direct.RunFunc
	}{
		{measurement.RR, true, func(ctx context.Context, req probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			select {
			case <-req.Hooks.Enough.Done():
				return some, ctx.Err()
			case <-ctx.Done():
				return measurement.Outcome{}, ctx.Err()
			}
		}},
		{measurement.RR, false, func(ctx context.Context, _ probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			<-ctx.Done() // it has not begun, and does not look
			return measurement.Outcome{}, ctx.Err()
		}},
		{measurement.Ping, true, func(ctx context.Context, _ probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			<-ctx.Done()
			return some, ctx.Err()
		}},
		{measurement.Ping, false, func(ctx context.Context, _ probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			<-ctx.Done()
			return some, errors.New("the network is down")
		}},
		{measurement.UDP, false, func(ctx context.Context, _ probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			<-ctx.Done()
			return some, ctx.Err()
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Minute, cancel)
			w := &direct.Watch{Run: c.run}
			out, err := w.Do(ctx, probe.Request{Spec: measurement.Spec{Kind: c.kind}}, nil)
			s := w.Stopped()
			if s == nil || s.Whole != c.whole || s.Spec.Kind != c.kind {
				t.Errorf("%s: %v, %v, and what there is of it is %+v", c.kind, out, err, s)
			}
		})
	}
}
