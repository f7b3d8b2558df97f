package detect

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

const (
	perDay  = 96 // every 15 minutes
	perYear = 365 * perDay
	// stated is how many false alarms a year may bring, of all series together: the default.
	stated = 0.25
)

// figure is a series as paths bring them.
type figure struct {
	name    string
	options Options
	// least is what a packet is of those sent.
	least float64
	// next is a sample at a level of 1, or of no loss; the daily cycle is in it.
	noise func(r *rand.Rand) func(t int) float64
}

// correlated is noise of variance 1 with the given correlation of neighbours.
func correlated(r *rand.Rand, phi float64) func() float64 {
	x := r.NormFloat64()
	return func() float64 {
		x = phi*x + math.Sqrt(1-phi*phi)*r.NormFloat64()
		return x
	}
}

// cycle rises to 1 in office hours of work days.
func cycle(t int) float64 {
	hour, day := float64(t%perDay)/perDay*24, t/perDay%7
	rise := math.Exp(-(hour - 14) * (hour - 14) / 18)
	if day >= 5 {
		rise *= 0.3
	}
	return rise
}

// watched are the figures of a watch of a path: skewed and correlated, with a daily cycle
// and single outliers.
func watched() []figure {
	share := func(figures float64) Options {
		return Options{FalseAlarmsPerYear: stated / figures, SamplesPerYear: perYear, Learn: perDay}
	}
	const figures = 6
	ratio, amount := share(figures), share(figures)
	ratio.Fraction = 0.05
	amount.Amount, amount.Offset = 0.001, 0.01
	rtt := func(spread, daily, outliers, phi float64) func(*rand.Rand) func(int) float64 {
		return func(r *rand.Rand) func(int) float64 {
			next := correlated(r, phi)
			return func(t int) float64 {
				v := math.Exp(spread*next()+daily*cycle(t)) + spread*r.ExpFloat64()
				if r.Float64() < outliers {
					v *= 1 + 3*r.ExpFloat64()
				}
				return v
			}
		}
	}
	rate := func(spread, daily, phi float64) func(*rand.Rand) func(int) float64 {
		return func(r *rand.Rand) func(int) float64 {
			next := correlated(r, phi)
			return func(t int) float64 {
				v := math.Exp(-spread*math.Abs(next()) - daily*cycle(t) - spread*r.ExpFloat64())
				if r.Float64() < 0.01 {
					v *= 0.3 + 0.5*r.Float64()
				}
				return v
			}
		}
	}
	loss := func(p, spread, bursts, packets float64) func(*rand.Rand) func(int) float64 {
		return func(r *rand.Rand) func(int) float64 {
			next := correlated(r, 0.6)
			return func(t int) float64 {
				rate := p * math.Exp(spread*next()+cycle(t))
				if r.Float64() < bursts {
					rate += 0.005 * r.ExpFloat64()
				}
				return min(poisson(r, rate*packets)/packets, 1)
			}
		}
	}
	return []figure{
		{"rtt p50", ratio, 0, rtt(0.03, 0.08, 0.01, 0.6)},
		{"rtt p99", ratio, 0, rtt(0.12, 0.2, 0.03, 0.5)},
		{"goodput", ratio, 0, rate(0.03, 0.05, 0.6)},
		{"goodput, reverse", ratio, 0, rate(0.08, 0.15, 0.7)},
		{"loss of requests", amount, 5. / 1000, loss(1e-5, 1, 0.005, 1000)},
		{"loss of packets", amount, 5. / 5000, loss(3e-4, 0.7, 0.01, 5000)},
	}
}

func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(math.Round(mean+math.Sqrt(mean)*r.NormFloat64()), 0)
	}
	n, left := 0.0, math.Exp(-mean)
	for p := r.Float64(); p > left; p *= r.Float64() {
		n++
	}
	return n
}

func TestAYearWithoutChange(t *testing.T) { withoutChange(t, 1, testutil.Repeat(2, 40)) }

// Every 6 hours, as experiments are watched, and what a budget allows.
func TestAYearOfFewSamples(t *testing.T) { withoutChange(t, perDay/4, testutil.Repeat(10, 200)) }

// withoutChange watches for years with one of so many samples.
func withoutChange(t *testing.T, every, years int) {
	all := 0
	most, several := 0, 0 // in a year; years with more than one
	by := map[string]int{}
	for year := range years {
		alarms := 0
		for i, f := range watched() {
			r := rand.New(rand.NewPCG(uint64(year), uint64(i)))
			f.options.SamplesPerYear, f.options.Learn = float64(perYear/every), max(perDay/every, 24)
			next, d := f.noise(r), New(f.options)
			for at := range perYear {
				if v := next(at); at%every == 0 && d.Add(v, f.least).Kind == Changed {
					alarms++
					by[f.name]++
				}
			}
			if l, _ := d.Limits(); year == 0 {
				t.Logf("%s: level %.4g, limits %.4g to %.4g, smallest effects -%.4g +%.4g, of days -%.4g +%.4g", f.name, l.Level, l.Low, l.High, l.SmallestDrop, l.SmallestRise, l.SlowDrop, l.SlowRise)
			}
		}
		all += alarms
		if most = max(most, alarms); alarms > 1 {
			several++
		}
	}
	t.Logf("%d false alarms in %d years of %d figures, at most %d in a year: %v", all, years, len(watched()), most, by)
	if several > years/20 {
		t.Errorf("%d of %d years have more than one false alarm, and up to %d", several, years, most)
	}
	if allowed := stated*float64(years) + 3*math.Sqrt(stated*float64(years)); float64(all) > allowed {
		t.Errorf("%d false alarms in %d years, and %v a year are stated", all, years, stated)
	}
}

// A change of twice the smallest effect, as it is stated when it comes, is found within
// as many samples as make a run; one of twice that of days, by the end of the first whole day after it.
func TestPlantedChanges(t *testing.T) {
	times := testutil.Repeat(25, 200)
	for i, f := range watched() {
		for _, plant := range []struct {
			name   string
			within int
			up     bool
			effect func(Limits) float64
		}{
			{"rise", Run, true, func(l Limits) float64 { return l.SmallestRise }},
			{"drop", Run, false, func(l Limits) float64 { return -l.SmallestDrop }},
			{"rise of days", 2 * perDay, true, func(l Limits) float64 { return l.SlowRise }},
			{"drop of days", 2 * perDay, false, func(l Limits) float64 { return -l.SlowDrop }},
		} {
			if !plant.up && f.options.Offset > 0 {
				continue // loss is nothing that could drop
			}
			t.Run(f.name+"/"+plant.name, func(t *testing.T) {
				found, possible, longer := 0, 0, 0
				for n := range times {
					r := rand.New(rand.NewPCG(uint64(n), uint64(1000+i)))
					next, d := f.noise(r), New(f.options)
					before := 8*perDay + r.IntN(30*perDay)
					quiet := true
					for at := range before {
						quiet = d.Add(next(at), f.least).Kind != Changed && quiet
					}
					l, _ := d.Limits()
					effect := 2 * plant.effect(l)
					change := func(v float64) float64 { return v * (l.Level + effect) / l.Level }
					within := plant.within
					if within == Run {
						within = l.Run
						longer += min(l.Run-Run, 1)
					}
					if f.options.Offset > 0 {
						change = func(v float64) float64 { return v + effect }
					}
					if !quiet || change(l.Level) <= 0 || effect == 0 {
						continue // a drop may be more than there is
					}
					possible++
					for at := before; at < before+within; at++ {
						if d.Add(change(next(at)), f.least).Kind == Changed {
							found++
							break
						}
					}
				}
				t.Logf("%d of %d found, %d by more than %d samples", found, possible, longer, Run)
				if plant.up && possible < times*3/4 {
					t.Errorf("only %d of %d could be planted", possible, times)
				}
				if float64(found) < 0.9*float64(possible) {
					t.Errorf("%d of %d found within %d samples, want 90 %%", found, possible, plant.within)
				}
			})
		}
	}
}
