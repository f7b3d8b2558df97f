package trial

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
)

// told is an agent whose clock is ahead of this process's, which is known so well.
type told struct {
	testbed.Agent
	epoch       time.Time
	ahead       time.Duration
	uncertainty time.Duration
	unknown     bool
}

func (a told) Clock() (clock.Estimate, bool)  { return clock.Estimate{}, false }
func (a told) Exchange(context.Context) error { return nil }

func (a told) Reads(moment time.Time) (at, uncertainty time.Duration, ok bool) {
	return moment.Sub(a.epoch) + a.ahead, a.uncertainty, !a.unknown
}

// toldBed has two ends.
type toldBed struct {
	slow
	ends map[string]testbed.Agent
}

func (b *toldBed) Agent(name string) (testbed.Agent, error) {
	if a := b.ends[name]; a != nil {
		return a, nil
	}
	return nil, errors.New("no such agent")
}

// On a path that takes 1 ms there and 5 ms back, stamps over it know the clocks to ± 3 ms.
// Where this process knows them better, so is the one-way delay; what it does not know, or
// what cannot be, changes nothing.
func TestOneWayDelayByTheAgentsClocks(t *testing.T) {
	const there, back, uncertainty = 0.001, 0.005, 50 * time.Microsecond
	started := time.Now()
	source := told{epoch: started.Add(-time.Minute), ahead: 5 * time.Second, uncertainty: uncertainty}
	destination := told{epoch: started.Add(-time.Minute), ahead: -3 * time.Second, uncertainty: uncertainty}
	other := func(change func(*told)) told {
		a := destination
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		destination testbed.Agent
		notSaid     bool
		want, bound float64
	}{
		"known":                        {destination, false, there, 100e-6},
		"less well known":              {other(func(a *told) { a.uncertainty = time.Second }), false, 0.003, 0.003},
		"on one side":                  {other(func(a *told) { a.uncertainty, a.ahead = 3*time.Millisecond, a.ahead-3*time.Millisecond }), false, 0.003475, 0.002525},
		"not known":                    {other(func(a *told) { a.unknown = true }), false, 0.003, 0.003},
		"of another process":           {other(func(a *told) { a.ahead += time.Second }), false, 0.003, 0.003},
		"behind a translation":         {destination, true, 0.003, 0.003},
		"an end that is asked nothing": {nil, false, 0.003, 0.003},
	} {
		bed := &toldBed{ends: map[string]testbed.Agent{"a": source}}
		if c.destination != nil {
			bed.ends["b"] = c.destination
		}
		// START came to the destination after 1 ms, from which it counts.
		at, _, _ := destination.Reads(started.Add(time.Millisecond))
		from, _, _ := source.Reads(started)
		o := measurement.Outcome{Started: started, Metrics: measurement.Metrics{}, OneWay: &measurement.OneWay{
			AheadLeast: -there - back, AheadMost: 0, To: 1, Exchanges: 3,
			SourceStarted: int64(from), DestinationStarted: int64(at),
		}}
		if c.notSaid {
			o.OneWay.DestinationStarted = 0
		}
		if !o.OneWay.Fill(o.Metrics) {
			t.Fatal(o.OneWay)
		}
		(&trial{bed: bed}).noteClocks(testbed.Pair{Source: "a", Destination: "b"}, &o)
		got, bound := o.Metrics["one_way_delay_p50_seconds"], o.Metrics["one_way_delay_bound_seconds"]
		if math.Abs(got-c.want) > 1e-6 || math.Abs(bound-c.bound) > 1e-6 {
			t.Errorf("%s: %v s ± %v s, want %v s ± %v s", name, got, bound, c.want, c.bound)
		}
		if narrower := c.bound < 0.003; narrower != (len(o.Facts) > 0) {
			t.Errorf("%s: facts %q", name, o.Facts)
		}
		if off := math.Abs(got - there); off > bound {
			t.Errorf("%s: %v s ± %v s, in truth %v", name, got, bound, there)
		}
	}
}
