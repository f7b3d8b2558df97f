package runner_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// published are the events that steps become.
func published(t *testing.T, steps func(func(runner.Event))) (out []event.Event) {
	t.Helper()
	s := event.NewStream()
	steps(runner.Publish(s))
	s.Close()
	for r := s.Read(0); ; {
		events, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		testutil.OK(t, err)
		out = append(out, events...)
	}
}

// Signs of life, five a second, become one event a second with their mean; a trial that is
// over before has one all the same.
func TestPublishedSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planned := experiment.PlannedTrial{ID: "b01-a-x", Block: 1, Path: "a", Test: "x", Spec: measurement.Spec{Kind: measurement.TCP}}
		events := published(t, func(step func(runner.Event)) {
			step(runner.Event{Trial: planned, Planned: 2})
			step(runner.Event{Trial: planned, Switched: &testbed.Switched{Changed: true, Set: map[string]string{"fw": "on"}, Took: time.Second}})
			step(runner.Event{Trial: planned, Live: &measurement.Progress{}, Left: 9 * time.Second})
			for i := range 10 {
				time.Sleep(200 * time.Millisecond)
				rate := float64(i/5+1) * 1e9
				step(runner.Event{Trial: planned, Left: 9 * time.Second, Live: &measurement.Progress{
					Elapsed: measurement.Seconds(0.2 * float64(i+1)), Throughput: rate, RTT: measurement.Seconds(i%2) * 1e-3,
					Pairs: []measurement.PairProgress{{Source: "c1", Destination: "s1", Throughput: rate / 4}, {Source: "c2", Destination: "s2", Throughput: rate * 3 / 4}},
					Hops:  []measurement.HopSeries{{Name: "fw", Samples: []measurement.HopSample{{ForwardBytes: float64(i)}, {ForwardBytes: 100 * float64(i)}}}},
				}})
			}
			step(runner.Event{Trial: planned, Finished: &measurement.Trial{ID: planned.ID, Outcome: measurement.Outcome{Pairs: []measurement.Pair{{}, {Delay: 0.25}}}}, Stored: time.Second})
			planned.ID, planned.Block = "b02-a-x", 2
			step(runner.Event{Trial: planned})
			step(runner.Event{Trial: planned, Live: &measurement.Progress{Elapsed: 0.1, Throughput: 5}})
			step(runner.Event{Trial: planned, Left: 4 * time.Second, Finished: &measurement.Trial{ID: planned.ID, Outcome: measurement.Outcome{
				Metrics: measurement.Metrics{"goodput_bits_per_second": math.Inf(1)},
				Source:  measurement.End{Clock: &measurement.Clock{Offset: -3, Uncertainty: 2}},
			}}})
			step(runner.Event{Rebuilt: errors.New("a hop died")})
			planned.ID = "b02-a-y" // booked, and never begun
			step(runner.Event{Trial: planned, Finished: &measurement.Trial{ID: planned.ID}})
		})
		var codes []event.Code
		var seconds []event.Event
		for _, e := range events {
			codes = append(codes, e.Code)
			if e.Code == event.Measured {
				seconds = append(seconds, e)
			}
		}
		want := []event.Code{
			event.BlockStarted, event.TrialStarted, event.Switched, event.Measured, event.Measured, event.TrialEnded, event.Spread,
			event.BlockStarted, event.TrialStarted, event.Measured, event.TrialEnded, event.Spread, event.Fault, event.TrialEnded,
		}
		if !slices.Equal(codes, want) {
			t.Fatalf("\ngot  %v\nwant %v", codes, want)
		}
		first, second := seconds[0].Second, seconds[1].Second
		if first.At != 1 || first.Rate() != 1e9 || first.RTT != 1e-3 || second.Rate() != 2e9 || len(first.Pairs) != 2 || first.Pairs[1].Rate() != 0.75e9 || first.Pairs[1].Source != "c2" {
			t.Errorf("%+v, %+v", first, second)
		}
		if seconds[1].Left != 7 || seconds[2].Left != 4 {
			t.Errorf("%v s are left, and %v s", seconds[1].Left, seconds[2].Left)
		}
		if h := seconds[1].Hops; len(h) != 1 || h[0].Name != "fw" || h[0].Counted.ForwardBytes != 900 {
			t.Errorf("hops %+v", h)
		}
		if events[2].Switch.Took != 1 || events[5].Ended.Stored != 1 || events[6].Clocks.Start != 0.25 || events[11].Clocks.Offset != -3 {
			t.Errorf("%+v, %+v, %+v, %+v", events[2].Switch, events[5].Ended, events[6].Clocks, events[11].Clocks)
		}
		if last := events[10].Ended; len(last.Metrics) != 0 {
			t.Errorf("%v is no number", last.Metrics)
		}
		if e := events[13]; e.Trial.ID != "b02-a-y" {
			t.Errorf("%+v", e.Trial)
		}
	})
}

// A second in which a test stood still for most of the time has the mean of all of it: what
// moved nothing counts as nothing, once it moved something.
func TestPublishedSecondOfAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planned := experiment.PlannedTrial{ID: "b01-a-x", Block: 1, Path: "a", Test: "x", Spec: measurement.Spec{Kind: measurement.TCP}}
		asked := experiment.PlannedTrial{ID: "b01-a-y", Block: 1, Path: "a", Test: "y", Spec: measurement.Spec{Kind: measurement.RR}}
		events := published(t, func(step func(runner.Event)) {
			step(runner.Event{Trial: planned})
			step(runner.Event{Trial: planned, Live: &measurement.Progress{}})
			for i := range 15 {
				time.Sleep(200 * time.Millisecond)
				one := measurement.PairProgress{Source: "c", Destination: "s"}
				if i < 6 {
					one.Throughput = 1e9
				}
				step(runner.Event{Trial: planned, Live: &measurement.Progress{Elapsed: measurement.Seconds(0.2 * float64(i+1)), Throughput: one.Throughput, Pairs: []measurement.PairProgress{one}}})
			}
			step(runner.Event{Trial: planned, Finished: &measurement.Trial{ID: planned.ID}})
			step(runner.Event{Trial: asked})
			for i := range 6 { // no answer has come yet: that is no round trip of 0
				step(runner.Event{Trial: asked, Live: &measurement.Progress{Elapsed: measurement.Seconds(0.2 * float64(i+1)), RTT: measurement.Seconds(i/3) * 1e-3}})
				time.Sleep(200 * time.Millisecond)
			}
		})
		var got []float64
		for _, e := range events {
			switch s := e.Second; {
			case e.Code != event.Measured:
			case e.Trial.Test == "y":
				if s.Throughput != nil || s.RTT != 1e-3 {
					t.Errorf("a test of round trips has %+v", s)
				}
			case s.Throughput == nil || len(s.Pairs) != 1 || s.Pairs[0].Throughput == nil || s.Pairs[0].Rate() != s.Rate():
				t.Errorf("a test of throughput has %+v", s)
			default:
				got = append(got, s.Rate())
			}
		}
		if want := []float64{1e9, 2e8, 0}; !slices.Equal(got, want) {
			t.Errorf("the seconds have %v bit/s, want %v", got, want)
		}
	})
}
