package detect

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.SeldomCollect()
	m.Run()
}

// fed is a detector that has learned a level with some noise.
func fed(o Options, level float64) (*Detector, *rand.Rand) {
	r := rand.New(rand.NewPCG(7, 8))
	d := New(o)
	for range 500 {
		d.Add(level*(1+0.02*r.NormFloat64()), 0)
	}
	return d, r
}

var plain = Options{Fraction: 0.05, FalseAlarmsPerYear: 0.05, SamplesPerYear: perYear, Learn: perDay}

func kinds(d *Detector, values ...float64) (out []Kind) {
	for _, v := range values {
		if f := d.Add(v, 0); f.Kind != Nothing {
			out = append(out, f.Kind)
		}
	}
	return out
}

func TestOutliersAreNoChange(t *testing.T) {
	d, _ := fed(plain, 1)
	if got := kinds(d, 100, 100, 1, 100, 1, 0.001, 0.001, 1, 100, 0.001, 100); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := kinds(d, 100, 100, 100); len(got) != 1 || got[0] != Changed {
		t.Errorf("three in a row: %v", got)
	}
}

// Where single samples are often beyond a limit, three in a row come by chance: a change takes
// more of them, as many as are stated.
func TestFrequentOutliersTakeALongerRun(t *testing.T) {
	for _, c := range []struct {
		perDay, every, run int
	}{{96, 0, 3}, {96, 200, 3}, {96, 33, 4}, {1440, 200, 3}, {1440, 33, 5}, {8640, 33, 5}} {
		o := plain
		o.SamplesPerYear, o.Learn = float64(365*c.perDay), c.perDay
		d, r := New(o), rand.New(rand.NewPCG(9, 9))
		for i := range max(2*c.perDay, 2880) {
			v := 1 + 0.02*r.NormFloat64()
			if c.every > 0 && i%c.every == 0 {
				v = 10
			}
			if f := d.Add(v, 0); f.Kind == Changed {
				t.Fatalf("a change of what is one in %d of %d a day", c.every, c.perDay)
			}
		}
		l, _ := d.Limits()
		if l.Run != c.run || l.High > 2 {
			t.Errorf("one in %d of %d a day: %+v, want a run of %d", c.every, c.perDay, l, c.run)
		}
		for i := range l.Run {
			if f := d.Add(9, 0); (f.Kind == Changed) != (i == l.Run-1) || f.Kind == Changed && f.Now < 8.999 {
				t.Errorf("one in %d of %d a day, %d in a row: %+v", c.every, c.perDay, i+1, f)
			}
		}
		for i := range 2 * l.Run {
			if f := d.Add(1, 0); (f.Kind == Back) != (i == l.Run-1) {
				t.Errorf("one in %d of %d a day, %d in a row at the former level: %+v", c.every, c.perDay, i+1, f)
			}
		}
	}
}

func TestWhatIsLearned(t *testing.T) {
	d := New(plain)
	for n := range plain.Learn {
		missing, learning := d.Learning()
		if _, ok := d.Limits(); ok || !learning || missing != plain.Learn-n {
			t.Fatalf("after %d: %d missing, %v", n, missing, learning)
		}
		if f := d.Add(1, 0); (f.Kind == Learned) != (n == plain.Learn-1) {
			t.Fatalf("after %d: %+v", n+1, f)
		}
	}
	l, ok := d.Limits()
	if _, learning := d.Learning(); learning || !ok {
		t.Error("it is not learned")
	}
	// A series without any noise has what matters for its limits.
	if math.Abs(l.High-1.05) > 1e-9 || math.Abs(l.Low-0.95) > 1e-9 || math.Abs(l.SmallestRise-0.05) > 1e-9 || math.Abs(l.SmallestDrop-0.05) > 1e-9 {
		t.Errorf("%+v", l)
	}
}

// A round every few seconds makes a day of tens of thousands of samples. What each costs after a
// change must not grow with them.
func TestALevelIsLearnedAnewWithoutSortingIt(t *testing.T) {
	o := plain
	o.Learn = 20_000
	d, r := New(o), rand.New(rand.NewPCG(7, 8))
	next := func(level float64) (f Finding, l Limits) {
		f = d.Add(level*(1+0.02*r.NormFloat64()), 0)
		l, _ = d.Limits()
		return f, l
	}
	for range o.Learn {
		next(1)
	}
	for range o.Learn / 2 {
		next(2)
	}
	var l Limits
	if n := testing.AllocsPerRun(1000, func() { _, l = next(2) }); n > 1 {
		t.Errorf("%v allocations a sample", n)
	}
	if level := d.o.unit(statistics.Median(d.after)); l.Level != level || l.Samples != len(d.after) || l.Samples < o.Learn/2 {
		t.Errorf("%+v, and the median of %d samples is %v", l, len(d.after), level)
	}
}

func TestTheLeastDifferenceIsAFloor(t *testing.T) {
	d := New(Options{Offset: 0.01, Amount: 0.001, FalseAlarmsPerYear: 0.05, SamplesPerYear: perYear, Learn: perDay})
	for range perDay {
		d.Add(0, 0.02)
	}
	if l, _ := d.Limits(); l.Level != 0 || l.Low != 0 || math.Abs(l.High-0.02) > 1e-9 {
		t.Errorf("%+v", l)
	}
}

// Whatever comes, limits are numbers, and the level is between them.
func TestAnyValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	odd := []float64{0, 1e-300, 1e-9, 1, 1e9, 1e300, -1, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64}
	for range 300 {
		o := Options{Scale: Scale(r.IntN(2)), Offset: []float64{0, 0.01}[r.IntN(2)], Fraction: 0.05 * r.Float64(), Amount: []float64{0, 1e-4, 10}[r.IntN(3)],
			FalseAlarmsPerYear: 0.1, SamplesPerYear: []float64{12, 1460, 3e7}[r.IntN(3)], Learn: 1 + r.IntN(30)}
		d := New(o)
		mixed := r.IntN(2) == 0
		for range 200 {
			v := r.ExpFloat64()
			if mixed || r.IntN(20) == 0 {
				v = odd[r.IntN(len(odd))]
			}
			d.Add(v, []float64{0, 0.1}[r.IntN(2)])
			l, ok := d.Limits()
			if !ok {
				continue
			}
			for _, x := range []float64{l.Level, l.Low, l.High, l.SmallestDrop, l.SmallestRise} {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%+v of %+v", l, o)
				}
			}
			if l.Low > l.Level*(1+1e-9)+1e-9 || l.High < l.Level*(1-1e-9)-1e-9 {
				t.Fatalf("%+v of %+v", l, o)
			}
		}
	}
}
