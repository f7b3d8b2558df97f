package probe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every kind with a time axis says when it began: after it was asked to, and a
// warm-up and a measured time before it was done.
func TestStarted(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	specs := []measurement.Spec{
		{Kind: measurement.TCP, Direction: measurement.Receive},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, RequestsPerSecond: 500},
		{Kind: measurement.Load, IdleDuration: 0.1, RequestsPerSecond: 200},
	}
	for _, k := range kind.All() {
		if _, timed := kind.Find(k.Name, "duration"); timed {
			specs = append(specs, measurement.Spec{Kind: k.Name})
		}
	}
	for _, spec := range specs {
		var out measurement.Outcome
		var before, after time.Time
		testutil.Longer(t, func(factor float64) string {
			spec.Duration, spec.MaxWarmup = measurement.Seconds(0.1*factor), 0.02
			spec = spec.Defaults()
			before = time.Now()
			var err error
			out, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil)
			after = time.Now()
			if err != nil {
				return fmt.Sprintf("%s: %v", spec.Kind, err)
			}
			return ""
		})
		least := (out.Warmup + spec.Duration).Duration()
		if out.Started.Before(before.Add(spec.IdleDuration.Duration())) || out.Started.Add(least).After(after) {
			t.Errorf("%s: asked at %v, began at %v, done at %v, of which %v were measured", spec.Kind, before, out.Started, after, least)
		}
	}
}

// What several pairs have in common of a load test is the start of the load, and not that of
// what is measured before.
func TestCommonStartOfALoad(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	spec := measurement.Spec{Kind: measurement.Load, Flows: 2, Duration: 0.1, MaxWarmup: 0.02, IdleDuration: 1}.Defaults()
	var signs atomic.Int64
	late, calls := errors.New("the start does not come"), 0
	_, err := probe.Run(servertest.Context(t), probe.Request{
		Spec: spec, Target: target, Token: servertest.Token,
		Prepared: func(context.Context) (time.Time, error) {
			if calls++; signs.Load() == 0 {
				t.Error("the start is waited for before the idle path was measured")
			}
			return time.Time{}, late
		},
	}, func(measurement.Progress) { signs.Add(1) })
	if !errors.Is(err, late) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	var start time.Time
	out, err := probe.Run(servertest.Context(t), probe.Request{
		Spec: spec, Target: target, Token: servertest.Token,
		Prepared: func(context.Context) (time.Time, error) { start = time.Now(); return start, nil },
	}, nil)
	testutil.OK(t, err)
	if out.Started.Before(start) {
		t.Errorf("the load began at %v, which was to begin at %v", out.Started, start)
	}
}

// A tcp test whose common start does not come ends, with its threads, and sends nothing.
func TestStartThatDoesNotCome(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, flows := range []int{1, 8, 80} { // the last share the poller
		spec := measurement.Spec{Kind: measurement.TCP, Flows: flows, Duration: 60}.Defaults()
		late := errors.New("the start does not come")
		_, err := probe.Run(servertest.Context(t), probe.Request{
			Spec: spec, Target: target, Token: servertest.Token,
			Prepared: func(context.Context) (time.Time, error) { return time.Time{}, late },
		}, nil)
		if !errors.Is(err, late) {
			t.Errorf("%d flows: %v", flows, err)
		}
	}
}
