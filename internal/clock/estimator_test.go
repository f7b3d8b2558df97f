package clock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// link is a simulated path to another clock, in seconds of the true time, which is this
// clock's.
type link struct {
	offset, drift     float64
	forward, backward float64 // what the way takes at least
	jitter            func(r *rand.Rand, t float64) (forward, backward float64)
}

func (l link) ahead(t float64) float64 { return l.offset + l.drift*t }

func (l link) exchange(r *rand.Rand, t float64) Exchange {
	forward, backward := l.jitter(r, t)
	at := t + l.forward + forward
	return Exchange{Sent: seconds(t), Heard: seconds(at + l.backward + backward), At: seconds(at + l.ahead(at))}
}

// jitters are shapes of what queues add, in seconds, of a scale.
var jitters = map[string]func(scale float64) func(*rand.Rand, float64) (float64, float64){
	"none": func(float64) func(*rand.Rand, float64) (float64, float64) {
		return func(*rand.Rand, float64) (float64, float64) { return 0, 0 }
	},
	"uniform": func(s float64) func(*rand.Rand, float64) (float64, float64) {
		return func(r *rand.Rand, _ float64) (float64, float64) { return s * r.Float64(), s * r.Float64() }
	},
	"exponential": func(s float64) func(*rand.Rand, float64) (float64, float64) {
		return func(r *rand.Rand, _ float64) (float64, float64) { return s * r.ExpFloat64(), s * r.ExpFloat64() }
	},
	"heavy tail": func(s float64) func(*rand.Rand, float64) (float64, float64) {
		pareto := func(r *rand.Rand) float64 { return s * (math.Pow(1-r.Float64(), -1/1.5) - 1) }
		return func(r *rand.Rand, _ float64) (float64, float64) { return pareto(r), pareto(r) }
	},
	"load one way at times": func(s float64) func(*rand.Rand, float64) (float64, float64) {
		return func(r *rand.Rand, t float64) (float64, float64) {
			queue := 0.0
			if math.Mod(t, 40) > 15 {
				queue = 20 * s
			}
			return s*r.ExpFloat64() + queue, s * r.ExpFloat64()
		}
	},
	"a queue that grows": func(s float64) func(*rand.Rand, float64) (float64, float64) {
		return func(r *rand.Rand, t float64) (float64, float64) { return s * r.Float64(), s * (r.Float64() + t/10) }
	},
}

// follow does the exchanges of a client for so long, and calls check after each.
func follow(r *rand.Rand, l link, length float64, check func(now float64, e Estimate)) {
	var e Estimator
	for n, t := 0, 0.0; t < length; n++ {
		x := l.exchange(r, t)
		e.Add(x)
		if got, ok := e.Estimate(); ok {
			check(x.Heard.Seconds(), got)
		}
		if n < 16 {
			t += 0.01
		} else {
			t++
		}
	}
}

// Of thousands of agents each is asked for its time seldom: what is known right after an
// exchange is as good as the exchange, whatever was not known of the drift before.
func TestSeldomExchanges(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 1))
	for range 1000 {
		l := link{offset: 20*r.Float64() - 10, drift: 400e-6*r.Float64() - 200e-6, forward: 100e-6, backward: 100e-6, jitter: jitters["uniform"](3e-3)}
		var e Estimator
		for _, at := range []float64{0, 0.1, 21, 42, 63, 84} {
			x := l.exchange(r, at)
			e.Add(x)
			got, ok := e.Estimate()
			if !ok {
				t.Fatal("nothing is known")
			}
			ahead, uncertainty := got.At(x.Heard)
			wrong := math.Abs(ahead.Seconds() - l.ahead(x.Heard.Seconds()))
			if most := lineIsBetter * (x.bound() + scaled(x.roundTrip(), MaxDrift)); uncertainty > most || wrong > uncertainty.Seconds() {
				t.Fatalf("at %v s, after a round trip of %v: wrong by %v s, which is bounded by %v, and that should be at most %v", at, x.roundTrip(), wrong, uncertainty, most)
			}
		}
	}
}

// The truth lies within the stated uncertainty, whatever the path does that does not
// change for good.
func TestTruthIsWithinTheUncertainty(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 1))
	const each = 170 // of six shapes: more than 1000 links
	for name, shape := range jitters {
		checked, outside, worst := 0, 0, 0.0
		early, earlyOutside := 0, 0 // of the first seconds, when little is known
		checkedDrift, outsideDrift := 0, 0
		for range each {
			l := link{
				offset: 20*r.Float64() - 10, drift: (400*r.Float64() - 200) * 1e-6,
				forward: math.Pow(10, -4.3+2.5*r.Float64()), jitter: shape(math.Pow(10, -6+3.5*r.Float64())),
			}
			l.backward = l.forward + 0.06*r.Float64()
			if r.IntN(2) == 0 {
				l.forward, l.backward = l.backward, l.forward
			}
			follow(r, l, 60+120*r.Float64(), func(now float64, e Estimate) {
				// As a start that is agreed on, and a trial that has just ended.
				for _, at := range []float64{now + 0.5, now, now - 5} {
					ahead, uncertainty := e.At(seconds(at))
					off := math.Abs(ahead.Seconds() - l.ahead(at))
					checked++
					if off > uncertainty.Seconds() {
						outside++
					}
					if now < 10 {
						early++
						if off > uncertainty.Seconds() {
							earlyOutside++
						}
					}
					worst = max(worst, off/uncertainty.Seconds())
				}
				checkedDrift++
				if math.Abs(e.Drift-l.drift) > e.DriftUncertainty {
					outsideDrift++
				}
				if e.DriftUncertainty < MaxDrift && e.Span == 0 {
					t.Errorf("%s: a drift of %v ± %v from one moment", name, e.Drift, e.DriftUncertainty)
				}
				if e.Steps != 0 {
					t.Errorf("%s: %d steps were seen", name, e.Steps)
				}
			})
		}
		t.Logf("%s: %d of %d outside, early %d of %d, drift %d of %d, the worst at %.2f of the uncertainty", name, outside, checked, earlyOutside, early, outsideDrift, checkedDrift, worst)
		if outside*100 > checked || earlyOutside*100 > early || outsideDrift*100 > checkedDrift {
			t.Errorf("%s: in %d of %d the truth is outside the stated uncertainty, early in %d of %d, the drift in %d of %d", name, outside, checked, earlyOutside, early, outsideDrift, checkedDrift)
		}
	}
}

// A clock that is as fast, or as slow, as clocks may be is followed as others are.
func TestFastestClocks(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 4))
	for _, drift := range []float64{MaxDrift, -MaxDrift} {
		checked, outside := 0, 0
		var last Estimate
		for range 100 {
			way := math.Pow(10, -4+2*r.Float64())
			l := link{offset: 20*r.Float64() - 10, drift: drift, forward: way, backward: way * (1 + r.Float64()), jitter: jitters["exponential"](way / 10)}
			follow(r, l, 60, func(now float64, e Estimate) {
				ahead, uncertainty := e.At(seconds(now + 0.5)) // as a start that is agreed on
				checked++
				if off := math.Abs(ahead.Seconds() - l.ahead(now+0.5)); off > uncertainty.Seconds() {
					outside++
				}
				last = e
			})
			if off := math.Abs(last.Drift - drift); off > last.DriftUncertainty || last.Steps != 0 {
				t.Errorf("a drift of %.1f ± %.1f ppm and %d steps, want %.0f ppm and none", last.Drift*1e6, last.DriftUncertainty*1e6, last.Steps, drift*1e6)
			}
		}
		if outside*100 > checked {
			t.Errorf("%.0f ppm: in %d of %d the truth is outside the stated uncertainty", drift*1e6, outside, checked)
		}
	}
}

// On a symmetric local network both the error and what is stated are soon below 100 µs.
func TestLocalNetwork(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 2))
	worstError, worstStated := 0.0, time.Duration(0)
	for range 200 {
		way := (20 + 30*r.Float64()) * 1e-6
		l := link{
			offset: 20*r.Float64() - 10, drift: (400*r.Float64() - 200) * 1e-6,
			forward: way, backward: way, jitter: jitters["exponential"](10e-6),
		}
		follow(r, l, 60, func(now float64, e Estimate) {
			ahead, uncertainty := e.At(seconds(now))
			if now > 20 {
				worstError = max(worstError, math.Abs(ahead.Seconds()-l.ahead(now)))
				worstStated = max(worstStated, uncertainty)
			}
		})
	}
	t.Logf("after 20 s the largest error is %.1f µs, and at most %v are stated", worstError*1e6, worstStated)
	if worstError > 100e-6 || worstStated > 100*time.Microsecond {
		t.Errorf("an error of %.1f µs; %v stated", worstError*1e6, worstStated)
	}
}

// A clock that stood still, or was moved, is noticed and followed again.
func TestStep(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 3))
	for _, step := range []float64{-3600, -0.5, 2} {
		var e Estimator
		l := link{offset: 1, drift: 50e-6, forward: 1e-3, backward: 2e-3, jitter: jitters["exponential"](1e-4)}
		for i := range 60 {
			if i == 40 {
				l.offset += step
			}
			e.Add(l.exchange(r, float64(i)))
		}
		got, _ := e.Estimate()
		ahead, uncertainty := got.At(60 * time.Second)
		if off := math.Abs(ahead.Seconds() - l.ahead(60)); off > uncertainty.Seconds() || uncertainty > 5*time.Millisecond {
			t.Errorf("after a step of %v s: %v ± %v, want %v s", step, ahead, uncertainty, l.ahead(60))
		}
		if got.Steps != 1 {
			t.Errorf("after a step of %v s: %d steps", step, got.Steps)
		}
	}
}

func TestNothingIsKnownWithoutExchanges(t *testing.T) {
	var e Estimator
	e.Add(Exchange{Sent: 2, Heard: 1})
	if got, ok := e.Estimate(); ok {
		t.Errorf("got %+v", got)
	}
}

// One exchange alone is believed no further than it reaches.
func TestOneExchange(t *testing.T) {
	var e Estimator
	e.Add(Exchange{Sent: 0, Heard: 10 * time.Millisecond, At: time.Hour})
	got, _ := e.Estimate()
	for _, at := range []time.Duration{5 * time.Millisecond, 100 * time.Second} {
		ahead, uncertainty := got.At(at)
		least := 5*time.Millisecond + time.Duration(float64(at-5*time.Millisecond)*MaxDrift)
		if ahead != time.Hour-5*time.Millisecond || uncertainty < least {
			t.Errorf("at %v: %v ± %v, want at least ± %v", at, ahead, uncertainty, least)
		}
	}
}

func TestTheirsAndOursAreReverse(t *testing.T) {
	e := Estimate{Offset: -7 * time.Second, Drift: 200e-6, Reference: 1_790_000_000 * time.Second}
	for _, at := range []time.Duration{0, time.Second, -time.Hour} {
		ours := e.Reference + at
		if back := e.Ours(e.Theirs(ours)); (back - ours).Abs() > time.Microsecond {
			t.Errorf("%v after the reference became %v", at, back-e.Reference)
		}
	}
}

func TestMonotonic(t *testing.T) {
	m := Start()
	now := time.Now()
	if got := m.Moment(m.Of(now)); !got.Equal(now) {
		t.Errorf("got %v, want %v", got, now)
	}
	if off := m.Of(now) - time.Duration(now.UnixNano()); off.Abs() > time.Minute {
		t.Errorf("it is %v from the wall clock that it was set by", off)
	}
}

// What an agent says is believed to be a time, whatever it is.
func FuzzEstimator(f *testing.F) {
	f.Add(int64(0), int64(1), int64(math.MaxInt64), int64(2), int64(3), int64(math.MinInt64))
	f.Add(int64(5), int64(4), int64(0), int64(0), int64(math.MaxInt64), int64(0))
	f.Fuzz(func(t *testing.T, s1, h1, a1, s2, h2, a2 int64) {
		var e Estimator
		e.Add(Exchange{time.Duration(s1), time.Duration(h1), time.Duration(a1)})
		e.Add(Exchange{time.Duration(s2), time.Duration(h2), time.Duration(a2)})
		if got, ok := e.Estimate(); ok {
			_, _ = got.At(time.Duration(s2))
			_ = got.Ours(got.Theirs(time.Duration(s1)))
			if math.IsNaN(got.Drift) || math.IsNaN(got.DriftUncertainty) {
				t.Errorf("got %+v", got)
			}
		}
	})
}
