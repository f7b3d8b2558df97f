package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// aaDesign is eight identical paths, which are four pairs.
func aaDesign() design {
	d := design{name: "aa", blocks: 10, tests: []test{
		{"rr", "kind: rr, protocol: udp, duration: 100ms, max_warmup: 10ms"},
		{"tcp", "kind: tcp, duration: 150ms, max_warmup: 50ms"},
	}}
	for i := range 8 {
		d.paths = append(d.paths, path{fmt.Sprintf("p%d", i+1), "{type: link, delay: 200us}, {type: router, name: hop, rate: 50Mbit}"})
	}
	return d
}

// identical is what the comparisons of identical paths on one metric came to.
type identical struct {
	claimed proportion // p below 0.05
	verdict map[result.Verdict]int
	spread  []float64 // p, made uniform
	lag     []float64 // autocorrelation of the within-block effects
	first   []float64 // effect of the path that was built first, a logarithm
}

// aa compares identical paths. Every other run has them built in the opposite
// order, so that which of a pair was built first changes sides.
func aa(ctx context.Context, o options, c *campaign) (report, error) {
	c.planned = o.pick(4, 38)
	by := map[string]*identical{}
	var metrics []string
	var excluded, broken proportion
	breaks := 0
	reasons := map[string]int{}
	uniform := rand.New(rand.NewPCG(o.seed, 1))
	runs, err := c.repeat(ctx, func(number int) error {
		d, sign := aaDesign(), 1.0
		if number%2 == 1 {
			d, sign = d.reversed(), -1
		}
		k, err := c.run(ctx, d, number, nil)
		if err != nil {
			return err
		}
		for _, t := range k.trials {
			excluded.count(!t.Gate.Passed)
			broken.count(t.Gate.Broken)
			if !t.Gate.Passed {
				reasons[fatal(t)]++
			}
		}
		for i := 1; i < 8; i += 2 {
			baseline, name := fmt.Sprintf("p%d", i), fmt.Sprintf("p%d", i+1)
			r, err := k.judge(d.pair(baseline, name))
			if err != nil {
				return err
			}
			for _, e := range r.Costs {
				if e.Verdict == result.Breaks {
					breaks++
				}
				if !e.Primary || e.P == nil || e.Metric == measurement.BrokenTrials {
					continue
				}
				if by[e.Metric] == nil {
					by[e.Metric] = &identical{verdict: map[result.Verdict]int{}}
					metrics = append(metrics, e.Metric)
				}
				by[e.Metric].add(e, r, sign, uniform.Float64())
			}
		}
		return nil
	})
	slices.Sort(metrics)
	return aaReport(runs, by, metrics, excluded, broken, breaks, reasons), err
}

func (a *identical) add(e result.Effect, r *result.Result, sign, uniform float64) {
	a.claimed.count(*e.P < 0.05)
	a.verdict[e.Verdict]++
	a.spread = append(a.spread, spread(*e.P, e.N, uniform))
	effects := withinBlocks(r.Trials, e)
	if lag, ok := analysis.Autocorrelation(effects); ok {
		a.lag = append(a.lag, lag)
	}
	if mean, _ := meanAndError(effects); len(effects) > 0 {
		a.first = append(a.first, -sign*mean)
	}
}

// withinBlocks are the logarithms of the ratios of a path to its baseline, block
// by block.
func withinBlocks(trials []measurement.Trial, e result.Effect) (effects []float64) {
	values := map[string]map[int]float64{}
	last := 0
	for _, t := range trials {
		if v := t.Metrics[e.Metric]; t.Test == e.Test && t.Gate.Passed && v > 0 {
			if values[t.Path] == nil {
				values[t.Path] = map[int]float64{}
			}
			values[t.Path][t.Block] = v
			last = max(last, t.Block)
		}
	}
	for block := 1; block <= last; block++ {
		a, b := values[e.Path][block], values[e.Baseline][block]
		if a > 0 && b > 0 {
			effects = append(effects, math.Log(a/b))
		}
	}
	return effects
}

// fatal is the code of what excluded a trial.
func fatal(t measurement.Trial) string {
	for _, f := range t.Gate.Findings {
		if f.Fatal {
			return string(f.Code)
		}
	}
	return "nothing that is said"
}

func aaReport(runs int, by map[string]*identical, metrics []string, excluded, broken proportion, breaks int, reasons map[string]int) report {
	blocks := aaDesign().blocks
	level := levelOf(blocks, 0.05)
	out := table{head: []string{"", "comparisons", "p < 0.05", "verdicts", "p uniform (n·ω² ≤ 0.46)", "lag-1 of the effects", "effect of the path built first"}}
	var all identical
	all.verdict = map[result.Verdict]int{}
	row := func(label string, a *identical) {
		if a.claimed.n == 0 {
			return
		}
		lag, lagError := meanAndError(a.lag)
		first, firstError := meanAndError(a.first)
		out.add(label, fmt.Sprint(a.claimed.n), a.claimed.String(), counts(a.verdict),
			fmt.Sprintf("%.2f", cramerVonMises(a.spread)),
			fmt.Sprintf("%+.2f ± %.2f", lag, 1.96*lagError),
			fmt.Sprintf("%+.2f ± %.2f %%", 100*math.Expm1(first), 196*firstError))
	}
	for _, m := range metrics {
		a := by[m]
		row(m, a)
		all.claimed.k += a.claimed.k
		all.claimed.n += a.claimed.n
		all.spread = append(all.spread, a.spread...)
		all.lag = append(all.lag, a.lag...)
		all.first = append(all.first, a.first...)
		for v, n := range a.verdict {
			all.verdict[v] += n
		}
	}
	row("all", &all)
	low, high := binomialRange(all.claimed.n, level)
	text := []string{
		fmt.Sprintf("Eight identical paths are four pairs that share nothing but the machine. %d runs of %d blocks, each in a lab of its own; in every other one the paths are built in the opposite order.", runs, blocks),
		fmt.Sprintf("With %d pairs the test's level is %.2f %%, so %d to %d of %d are expected below 0.05 (95 %%): %s. Independent effects have a lag-1 autocorrelation of about %.2f.",
			blocks, 100*level, low, high, all.claimed.n, reached(all.claimed.k >= low && all.claimed.k <= high), -1/float64(blocks)),
		fmt.Sprintf("Sound trials that a gate excluded: %s: %s. Of these, booked on the path as broken: %d; comparisons that say that a path breaks trials: %d.", excluded, reached(excluded.k == 0), broken.k, breaks),
	}
	if excluded.k > 0 {
		text = append(text, "They were excluded for: "+counts(reasons)+".")
	}
	return report{tables: []table{out}, text: text}
}
