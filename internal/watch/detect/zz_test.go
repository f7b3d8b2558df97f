package detect

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// minutes per round from env; daily cycle in minutes
func TestZZ(t *testing.T) {
	mins, _ := strconv.ParseFloat(os.Getenv("MINS"), 64)
	years, _ := strconv.Atoi(os.Getenv("YEARS"))
	pd := 1440 / mins
	cyc := func(at float64) float64 { // at in minutes
		hour := math.Mod(at, 1440) / 60
		day := int(at/1440) % 7
		rise := math.Exp(-(hour - 14) * (hour - 14) / 18)
		if day >= 5 {
			rise *= 0.3
		}
		return rise
	}
	type fig struct {
		name        string
		spread, daily, out, phi float64
	}
	for _, f := range []fig{{"p50", .03, .08, .01, .6}, {"p99", .12, .2, .03, .5}, {"strong cycle", .03, .3, .01, .6}} {
		total, ch, back := 0, 0, 0
		for y := range years {
			r := rand.New(rand.NewPCG(uint64(y), 77))
			phi := math.Pow(f.phi, mins/15)
			next := correlated(r, phi)
			o := Options{Fraction: 0.05, FalseAlarmsPerYear: stated / 6, SamplesPerYear: 365 * pd, Learn: max(int(pd), 24)}
			d := New(o)
			for i := range int(365 * pd) {
				at := float64(i) * mins
				v := math.Exp(f.spread*next()+f.daily*cyc(at)) + f.spread*r.ExpFloat64()
				if r.Float64() < f.out {
					v *= 1 + 3*r.ExpFloat64()
				}
				switch d.Add(v, 0).Kind {
				case Changed:
					ch++
					if total < 12 {
						total++
						t.Logf("%s year %d changed at day %.2f", f.name, y, at/1440)
					}
				case Back:
					back++
				}
			}
		}
		t.Logf("%s every %v min: %d changed, %d back in %d years", f.name, mins, ch, back, years)
	}
}
