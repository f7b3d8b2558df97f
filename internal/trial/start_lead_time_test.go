package trial

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// wave is a testbed whose sources take some time to prepare, and then send for as long as
// they are asked to.
type wave struct {
	*crowd
	prepares  time.Duration
	mu        sync.Mutex
	asked     map[string]measurement.Spec
	connected map[string]time.Time // when it connected
	began     map[string]time.Time
	ended     map[string]time.Time
}

func newWave(pairs int, prepares time.Duration) *wave {
	return &wave{
		crowd: newCrowd(make([]string, pairs)), prepares: prepares,
		asked: map[string]measurement.Spec{}, connected: map[string]time.Time{}, began: map[string]time.Time{}, ended: map[string]time.Time{},
	}
}

func (w *wave) Agent(name string) (testbed.Agent, error) { return surfer{w, name}, nil }

type surfer struct {
	*wave
	name string
}

func (s surfer) Run(ctx context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	if r.Spec.Kind == measurement.Trace {
		return (&one{crowd: s.crowd, source: true}).Run(ctx, r, nil)
	}
	connected := time.Now()
	time.Sleep(s.prepares)
	at, err := r.Prepared(ctx)
	if err != nil {
		return measurement.Outcome{}, err
	}
	time.Sleep(time.Until(at))
	began := time.Now()
	length := r.Spec.Lead + r.Spec.MaxWarmup + r.Spec.Duration
	time.Sleep(length.Duration())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[s.name], s.connected[s.name], s.began[s.name], s.ended[s.name] = r.Spec, connected, began, time.Now()
	o := steadyPair(1e6, 0).outcome
	o.Started, o.Warmup = began, r.Spec.MaxWarmup
	// Those that count for longer have wider bins.
	width := max(measurement.Seconds(0.01), length/200)
	o.Throughput = &measurement.Bins{Width: width}
	for range int(math.Ceil(float64(length / width))) {
		o.Throughput.Bytes = append(o.Throughput.Bytes, 1e8*float64(width))
	}
	return o, nil
}

// Pairs start when the ramp or their wave says, connect shortly before and not earlier, and
// all end together; what is measured begins after the last has started, and is as long as
// the test says.
func TestRampsAndWaves(t *testing.T) {
	for _, c := range []struct {
		name     string
		spec     measurement.Spec
		pairs    int
		prepares time.Duration
		starts   []float64 // seconds after the first
	}{
		{"at once", measurement.Spec{}, 4, time.Second, []float64{0, 0, 0, 0}},
		{"ramp", measurement.Spec{Ramp: 9}, 4, 100 * time.Millisecond, []float64{0, 3, 6, 9}},
		{"ramp of two", measurement.Spec{Ramp: 2.5}, 2, 0, []float64{0, 2.5}},
		{"waves", measurement.Spec{Waves: 3, WaveEvery: 60}, 7, time.Second, []float64{0, 0, 0, 60, 60, 120, 120}},
		{"a wave each", measurement.Spec{Waves: 3, WaveEvery: 2}, 3, 50 * time.Millisecond, []float64{0, 2, 4}},
		{"slow to prepare", measurement.Spec{Waves: 2, WaveEvery: 1}, 2, 1500 * time.Millisecond, []float64{0, 1.5}},
	} {
		for _, kind := range []measurement.Kind{measurement.TCP, measurement.RR} {
			t.Run(c.name+" "+string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					spec := c.spec
					spec.Kind, spec.Duration, spec.MaxWarmup = kind, 10, 2
					spec = spec.Defaults()
					bed := newWave(c.pairs, c.prepares)
					d, err := Do(t.Context(), bed, Wanted{ID: "t", Path: "p", Spec: spec}, nil)
					if err != nil || d.Err != nil {
						t.Fatal(err, d.Err)
					}
					if kind == measurement.TCP && !d.Gate.Passed {
						t.Errorf("%+v", d.Gate.Findings)
					}
					last := c.starts[c.pairs-1]
					var spread float64
					for k, want := range c.starts {
						name := bed.Paths()[0].Pairs[k].Source
						got, planned := d.Outcome.Pairs[k].Delay.Duration().Seconds(), spec.StartOf(k, c.pairs)
						spread = max(spread, got-float64(planned))
						if math.Abs(got-want) > 1e-3 || d.Outcome.Pairs[k].PlannedDelay != planned || bed.began[name].Sub(bed.began["c1"]) != d.Outcome.Pairs[k].Delay.Duration() {
							t.Errorf("pair %d started %v s after the first, planned %v, want %v", k+1, got, planned, want)
						}
						early := bed.began[name].Sub(bed.connected[name])
						if most := max(2*c.prepares, (spec.Ramp+spec.WaveEvery).Duration()/2) + 100*time.Millisecond; early > min(most, mostEarly+100*time.Millisecond) {
							t.Errorf("pair %d connected %v before it started, want at most %v", k+1, early, most)
						}
						if late := bed.ended[name].Sub(bed.ended["c1"]).Seconds(); math.Abs(late-(want-float64(planned))) > 1e-3 {
							t.Errorf("pair %d ended %v s after the first", k+1, late)
						}
						if s := bed.asked[name]; s.Ramp != 0 || s.Waves != 0 || s.WaveEvery != 0 || s.Duration != spec.Duration {
							t.Errorf("pair %d was asked for %+v", k+1, s)
						}
					}
					if got := float64(measurement.StartSpread(d.Outcome.Pairs)); math.Abs(got-spread) > 1e-9 {
						t.Errorf("starts are said to be %v s apart beside the plan, are %v", got, spread)
					}
					if got := float64(d.Outcome.Warmup); got < last-1e-3 || got > last+2.2 {
						t.Errorf("%v s are discarded, the last pair started after %v s", got, last)
					}
					b := d.Outcome.Throughput
					if covered := float64(b.Width)*float64(len(b.Bytes)) - float64(d.Outcome.Warmup); covered < 9.4 || covered > 12.2 {
						t.Errorf("%v s are measured, want 10", covered)
					}
					if got, want := d.Outcome.Metrics["goodput_bits_per_second"], float64(c.pairs)*8e8; kind == measurement.TCP && math.Abs(got-want) > 1e-3*want {
						t.Errorf("%g bit/s together, want %g", got, want)
					}
				})
			})
		}
	}
}

// A pair of a later wave whose turn never comes is none that its path failed.
func TestTurnThatNeverComes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the testbed broke"))
	c := newCommonStart(measurement.Spec{Ramp: 1}, 2)
	if err := c.turn(ctx, 1); err == nil || probe.ReasonOf(err).OfPath() {
		t.Errorf("got %v", err)
	}
}

// timed is an agent that takes its time to answer. Bounds are how well its clock is known,
// before it has answered, after the first time, and so on; the last one stays.
type timed struct {
	testbed.Agent
	takes  time.Duration
	bounds []time.Duration
	asked  int
}

func (a *timed) bound() time.Duration {
	if len(a.bounds) == 0 {
		return 0
	}
	return a.bounds[min(a.asked, len(a.bounds)-1)]
}

func (a *timed) Clock() (clock.Estimate, bool) {
	return clock.Estimate{Uncertainty: a.bound()}, a.bound() > 0
}

func (a *timed) Reads(time.Time) (at, uncertainty time.Duration, ok bool) {
	return 0, a.bound(), a.bound() > 0
}

func (a *timed) Exchange(ctx context.Context) error {
	select {
	case <-time.After(a.takes):
		a.asked++
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A common start is so far ahead that all hear of it in time, as long as it takes to tell
// them: each is asked once more before. Those whose clocks are not well known then are asked
// again, the least known first, as long as that helps. Whoever does not answer delays it, and
// not for good.
func TestHeadStart(t *testing.T) {
	const ms = time.Millisecond
	well := []time.Duration{ms / 4}
	many := 10 * (askedAtOnce + 2)
	for name, c := range map[string]struct {
		sources     int // with the bounds
		takes       time.Duration
		bounds      []time.Duration
		others      int // whose clocks are well known
		least, most time.Duration
		asked       int           // each of the sources
		waits       time.Duration // at most, until the start is decided
	}{
		"clocks that are not known":  {sources: 3},
		"two":                        {sources: 2, takes: 40 * ms, bounds: well, least: 80 * ms, most: 200 * ms, asked: 1, waits: 40 * ms},
		"more than at the same time": {sources: many, takes: 40 * ms, bounds: well, least: 800 * ms, most: time.Second, asked: 1, waits: 400 * ms},
		"far away":                   {sources: 2, takes: 40 * ms, bounds: []time.Duration{20 * ms}, least: 120 * ms, most: 200 * ms, asked: 2, waits: 80 * ms},
		"better known each time":     {sources: 1, takes: ms, bounds: []time.Duration{9 * ms, 8 * ms, 4 * ms, 2 * ms, ms / 2}, others: 1, least: 2 * ms, most: 60 * ms, asked: 4, waits: 4 * ms},
		"hardly better known":        {sources: 1, takes: ms, bounds: []time.Duration{9 * ms, 8 * ms, 15 * ms / 2, 15 * ms / 2}, others: 1, least: 17 * ms, most: 70 * ms, asked: 2, waits: 2 * ms},
		"little better each time":    {sources: 1, takes: 300 * ms, bounds: []time.Duration{90 * ms, 80 * ms, 70 * ms, 60 * ms, 50 * ms, 40 * ms, 35 * ms, 30 * ms, 25 * ms, 20 * ms, 17 * ms}, least: 600 * ms, most: time.Second, asked: 7, waits: 300*ms + askTime},
		"one that says nothing":      {sources: 1, takes: time.Hour, bounds: []time.Duration{ms}, others: 1, least: 2 * askTime, most: 2*askTime + time.Second, waits: 2 * askTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []testbed.Agent
				for range c.others {
					all = append(all, &timed{takes: c.takes, bounds: well})
				}
				for range c.sources {
					all = append(all, &timed{takes: c.takes, bounds: c.bounds})
				}
				if c.takes == time.Hour {
					all[0].(*timed).takes = ms
				}
				began := time.Now()
				if got := headStart(t.Context(), all); got < c.least || got > c.most {
					t.Errorf("%v ahead, want %v to %v", got, c.least, c.most)
				}
				if waited := time.Since(began); waited > c.waits {
					t.Errorf("decided after %v, want %v", waited, c.waits)
				}
				for i, a := range all {
					want := c.asked
					if i < c.others {
						want = 1
					}
					if got := a.(*timed).asked; got != want {
						t.Errorf("source %d was asked %d times, want %d", i+1, got, want)
					}
				}
			})
		})
	}
}

// Where there is no time to ask all again whose clocks are not well known, the least known are
// asked.
func TestLeastKnownFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []testbed.Timed
		for i := range 10 {
			all = append(all, &timed{takes: 2 * askTime / 5, bounds: []time.Duration{time.Duration(1+i*7%10) * time.Second}})
		}
		askAgain(t.Context(), all, 1)
		for _, a := range all {
			if one := a.(*timed); (one.asked > 0) != (one.bounds[0] > 8*time.Second) {
				t.Errorf("the one known within %v was asked %d times", one.bounds[0], one.asked)
			}
		}
	})
}
