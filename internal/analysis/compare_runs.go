package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// LabelledRun is a run with the name that a comparison gives it.
type LabelledRun struct {
	Label  string
	Result *result.Result
}

// CompareRuns compares every metric that reports compare, of every test on
// every path that both runs have. The trials of the two runs are not paired:
// nothing ties a block of one to a block of the other. The notes say what a
// reader must know of it.
func CompareRuns(reference, run LabelledRun, opts Options) ([]result.Effect, []result.Note) {
	opts = opts.Defaults()
	a, notesA := gather(reference.Result.Trials, reference.Result.Tests, reference.Result.Paths)
	b, notesB := gather(run.Result.Trials, run.Result.Tests, run.Result.Paths)
	notes := slices.Concat(labelled(reference.Label, notesA), labelled(run.Label, notesB))
	scaleA, scaleB := scaleOf(reference.Result), scaleOf(run.Result)
	var all []*costEstimate
	for _, p := range a.paths {
		if !slices.ContainsFunc(b.paths, func(q result.PathInfo) bool { return q.Name == p.Name }) {
			notes = append(notes, result.Note{Code: result.NoteNoPath, Run: run.Label, Path: p.Name})
			continue
		}
		for _, t := range a.tests {
			i := slices.IndexFunc(b.tests, func(u result.TestInfo) bool { return u.Name == t.Name && u.Spec.Kind == t.Spec.Kind })
			if i < 0 {
				continue
			}
			for _, m := range measurement.MetricsOf(t.Spec.Kind) {
				if !m.Compared {
					continue
				}
				before, after := a.list(p.Name, t.Name, m.Name), b.list(p.Name, t.Name, m.Name)
				if m.ScalesWithRate && scaleA != scaleB {
					before, after = multiplied(before, scaleA), multiplied(after, scaleB)
				}
				c := shiftEstimate(before, after, m, opts)
				switch {
				case c != nil:
					if m.Unit == measurement.Fraction {
						c.ofZeroCounts(fewestLookedAt(a.cells[cellKey{p.Name, t.Name}], t.Spec, m.Name), fewestLookedAt(b.cells[cellKey{p.Name, t.Name}], t.Spec, m.Name))
					}
					c.Run, c.ReferenceRun, c.Path, c.Test = run.Label, reference.Label, p.Name, t.Name
					all = append(all, c)
				case m.Primary:
					// A secondary metric may rightly be missing.
					notes = append(notes, result.Note{Code: result.NoteNothingToCompare, Run: run.Label, ReferenceRun: reference.Label, Path: p.Name, Test: t.Name})
				}
			}
		}
	}
	correct(all)
	notes = append(notes, powerNotes(all, result.NoteTooFewTrials)...)
	out := make([]result.Effect, len(all))
	for i, c := range all {
		c.decide()
		out[i] = c.Effect
	}
	return out, notes
}

func labelled(label string, notes []result.Note) []result.Note {
	for i := range notes {
		notes[i].Run = label
	}
	return notes
}

func scaleOf(r *result.Result) float64 { return cmp.Or(r.Experiment.Scale, 1) }

// list is the finite values of a metric in the order of the trials.
func (s *dataset) list(path, test, metric string) []float64 {
	var out []float64
	for _, t := range s.cells[cellKey{path, test}] {
		if v, ok := t.Metrics[metric]; ok && finite(v) {
			out = append(out, v)
		}
	}
	return out
}

func multiplied(values []float64, factor float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * factor
	}
	return out
}

// shiftEstimate estimates how far the second sample lies from the first; nil when
// either is empty.
func shiftEstimate(before, after []float64, m measurement.Metric, opts Options) *costEstimate {
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	c := &costEstimate{metric: m, alpha: opts.Alpha, minBlocks: opts.MinBlocks, unpaired: true, base: before, other: after, logarithmic: m.ByRatio()}
	c.Effect = result.Effect{Metric: m.Name, Primary: m.Primary, Margin: opts.margin(m), N: len(after), ReferenceN: len(before), ReferenceMedian: Median(before), Median: Median(after)}
	c.n = min(len(before), len(after))
	c.lower, c.upper = limits(m, c.Margin)
	x, y := before, after
	if c.logarithmic {
		x, y = logarithms(before), logarithms(after)
	}
	c.effects = slices.Concat(around0(x), around0(y))
	c.estimateShift(x, y)
	return c
}

func logarithms(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = logOf(v)
	}
	return out
}

// around0 is each value's distance from their median.
func around0(values []float64) []float64 {
	centre := Median(values)
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = minus(v, centre)
	}
	return out
}

// estimateShift fills in estimates, intervals and p; x and y are on the scale
// of effects.
func (c *costEstimate) estimateShift(x, y []float64) {
	n, m := len(x), len(y)
	var logs []float64
	if c.logarithmic || slices.Min(c.base) > 0 && slices.Min(c.other) > 0 {
		logs = shifts(logarithms(c.base), logarithms(c.other))
	}
	c.fill(logs, shifts(c.base, c.other), func(s []float64) (interval, bool) { return rankSumInterval(s, n, m, 1-c.alpha) })
	if c.interval != nil {
		p := rankSumP(x, y)
		c.P = &p
	}
}

// fewestTrials is the smallest n of each of two runs at which the rank-sum test
// can be significant at all in a family of this size: 2/C(2n, n) < alpha/size.
func (c *costEstimate) fewestTrials() int {
	ways, n := 2.0, 1
	for 2/ways*float64(max(1, c.familySize)) >= c.alpha {
		n++
		ways *= float64(2*n) * float64(2*n-1) / float64(n*n)
	}
	return n
}

// evenSize is the n of two samples of equal size that estimate as precisely:
// the harmonic mean of their sizes.
func (c *costEstimate) evenSize() float64 {
	n, m := float64(len(c.base)), float64(len(c.other))
	return 2 * n * m / (n + m)
}

// shiftSpread is costEstimate.spread for two samples: the estimate's standard
// error times the root of evenSize.
func (c *costEstimate) shiftSpread() float64 {
	if c.interval != nil {
		z := normalQuantile((1 + c.interval.Coverage) / 2)
		return (c.interval.High - c.interval.Low) / (2 * z) * math.Sqrt(c.evenSize())
	}
	if len(c.effects) < 3 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, v := range c.effects {
		sum += square(v)
	}
	return math.Sqrt(2 * sum / float64(len(c.effects)-2) * math.Pi / 3)
}
