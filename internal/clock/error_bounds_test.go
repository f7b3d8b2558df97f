package clock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sights are the exchanges of a test of a length: many in a row before and after it, few
// meanwhile.
func sights(r *rand.Rand, l link, length float64) (all []Exchange) {
	const row = 16
	burst := func(from float64) {
		for i := range row {
			all = append(all, l.exchange(r, from+0.002*float64(i)))
		}
	}
	burst(-0.1)
	for t := 0.5; t < length; t++ {
		all = append(all, l.exchange(r, t))
	}
	burst(length + 0.01)
	return all
}

// The truth lies within the bounds, without exception, whatever the path does; and they
// are no wider than what the fastest packets took, and a little for the drift.
func TestTruthIsWithinTheBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 6))
	for name, shape := range jitters {
		for range 60 {
			l := link{
				offset: 20*r.Float64() - 10, drift: (400*r.Float64() - 200) * 1e-6,
				forward: math.Pow(10, -4.3+2.5*r.Float64()), jitter: shape(math.Pow(10, -6+3.5*r.Float64())),
			}
			l.backward = l.forward + 0.06*r.Float64()
			if r.IntN(2) == 0 {
				l.forward, l.backward = l.backward, l.forward
			}
			length := 0.1 + 30*r.Float64()
			all := sights(r, l, length)
			least, most, ok := Bounds(all, 0, seconds(length))
			if !ok {
				t.Fatalf("%s: %+v is not bounded", name, l)
			}
			low, high := least.Seconds(), most.Seconds()
			for i := range 11 {
				truth := l.ahead(length * float64(i) / 10)
				if truth < low || truth > high {
					t.Errorf("%s: %+v is ahead by %v s, not by %v to %v", name, l, truth, low, high)
				}
			}
			if width := high - low; width < l.forward+l.backward {
				t.Errorf("%s: %+v: %v s of bounds are less than what the path takes", name, l, width)
			}
			if drifted := math.Abs(l.drift) * length; name == "none" && high-low > (l.forward+l.backward)*1.01+1.1*drifted+2.1*uneven*length+20e-6 {
				t.Errorf("%+v: %v s of bounds", l, high-low)
			}
		}
	}
}

// Of the fastest request and the fastest response each says what it knows, though they
// were not of one exchange.
func TestBoundsTakeTheBestOfEachDirection(t *testing.T) {
	ms := time.Millisecond
	all := []Exchange{
		{Sent: 0, At: time.Hour + 1*ms, Heard: 51 * ms},           // a fast request
		{Sent: 60 * ms, At: time.Hour + 110*ms, Heard: 111 * ms},  // a fast response
		{Sent: 120 * ms, At: time.Hour + 150*ms, Heard: 180 * ms}, // neither
	}
	least, most, ok := Bounds(all, 0, 100*ms)
	if !ok || least > time.Hour || most < time.Hour || most-least > 3*ms {
		t.Errorf("%v to %v (%v)", least, most, ok)
	}
}

// A clock that is slewed meanwhile is on no line; one that jumped has no bounds.
func TestBoundsOfClocksThatGoUnevenly(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 7))
	l := link{forward: 1e-4, backward: 2e-4, jitter: jitters["none"](0)}
	all := sights(r, l, 20)
	ahead := func(t float64) float64 { return 300e-6 * math.Abs(t-10) } // -300 ppm, then +300 ppm
	for i := range all {
		all[i].At += seconds(ahead(all[i].middle().Seconds()))
	}
	least, most, ok := Bounds(all, 0, 20*time.Second)
	if !ok {
		t.Fatal("a clock that is slewed is not bounded")
	}
	for i := range 21 {
		if truth := ahead(float64(i)); truth < least.Seconds() || truth > most.Seconds() {
			t.Errorf("at %d s it is ahead by %v s, not by %v to %v", i, truth, least, most)
		}
	}
	for i := range all {
		if all[i].Sent > 10*time.Second {
			all[i].At -= time.Second
		}
	}
	if least, most, ok := Bounds(all, 0, 20*time.Second); ok {
		t.Errorf("a clock that jumped back by a second: %v to %v", least, most)
	}
	if _, _, ok := Bounds(nil, 0, time.Second); ok {
		t.Error("nothing was exchanged, and there are bounds")
	}
}

// However many exchanges there are, few are looked at, and the best of them.
func TestBoundsOfManyExchanges(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 8))
	l := link{offset: -3, drift: 10e-6, forward: 1e-3, backward: 1e-3, jitter: jitters["heavy tail"](1e-3)}
	least, most, ok := Bounds(sights(r, l, 3600), 0, time.Hour)
	if truth := l.ahead(3600); !ok || truth > most.Seconds() || l.ahead(0) < least.Seconds() || most-least > 60*time.Millisecond {
		t.Errorf("%v to %v (%v), in truth %v to %v s", least, most, ok, l.ahead(0), truth)
	}
}

// Whatever the other end says, the bounds are numbers in order, or there are none.
func FuzzBounds(f *testing.F) {
	f.Add(int64(0), int64(1), int64(math.MaxInt64), int64(2), int64(3), int64(math.MinInt64), int64(0), int64(10))
	f.Add(int64(5), int64(4), int64(0), int64(0), int64(math.MaxInt64), int64(0), int64(math.MinInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, s1, h1, a1, s2, h2, a2, from, to int64) {
		const most = 1e17 // three years: who takes stamps from others bounds them
		d := func(v int64) time.Duration { return time.Duration(v % most) }
		all := []Exchange{{d(s1), d(h1), d(a1)}, {d(s2), d(h2), d(a2)}}
		if least, most, ok := Bounds(all, d(from), d(to)); ok && least > most {
			t.Errorf("%v to %v", least, most)
		}
	})
}

func TestStepOfTheClock(t *testing.T) {
	if s := Step(); s <= 0 || s > time.Minute {
		t.Errorf("the clock goes in steps of %v", s)
	}
}
