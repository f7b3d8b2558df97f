package analysis

import (
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// ComparePublished compares published figures with a run's cells and costs, one
// PublishedComparison for each figure. On a testbed whose absolute figures are
// relative, what depends on its machine is compared as the ratio of the path to
// the baseline, wherever the study has a figure for the baseline, too; all else
// by value.
func ComparePublished(r *result.Result, figures []result.Figure) []result.PublishedComparison {
	out := make([]result.PublishedComparison, 0, len(figures))
	trials, _ := gather(r.Trials, r.Tests, r.Paths)
	for _, f := range figures {
		h := figureEstimate{result: r, trials: trials, figures: figures, metric: measurement.MetricOf(f.Metric),
			PublishedComparison: result.PublishedComparison{Figure: f, Basis: result.BasisValue, Factor: 1}}
		h.compare()
		out = append(out, h.PublishedComparison)
	}
	return out
}

// figureEstimate is one published figure while it is worked out.
type figureEstimate struct {
	result.PublishedComparison
	result  *result.Result
	trials  *dataset // of the result, those that count
	figures []result.Figure
	metric  measurement.Metric
}

func (h *figureEstimate) compare() {
	h.findOtherConditions()
	h.measure()
	if h.N == 0 {
		h.Judgement = result.NotMeasured
		h.Missing, h.ExcludedTrials = h.whyNotMeasured()
		return
	}
	measured, published := h.Measured, h.Value
	low, high := h.Low, h.High
	if h.takeRatio() {
		measured, published = h.MeasuredRatio, h.PublishedRatio
		low, high = h.RatioLow, h.RatioHigh
	}
	if low != nil && high != nil {
		inside := *low <= published && published <= *high
		h.InInterval = &inside
	}
	if known := h.Basis == result.BasisValue || measured > 0; known && ratioable(published) && measured >= 0 {
		off := measured/published - 1
		h.Off = &off
	}
	h.judge(low, high, published)
}

// findOtherConditions notes where the test has other flows or another duration
// than the figure was published with. A rate over a second is not that over
// thirty: slow start, queues that fill and retransmissions weigh otherwise.
func (h *figureEstimate) findOtherConditions() {
	t := h.trials.run().Test(h.Test)
	if t.Name == "" {
		return
	}
	if flows := max(t.Spec.Flows, 1); h.Flows > 0 && flows != h.Flows {
		h.OtherFlows = flows
	}
	if h.Duration > 0 && t.Spec.Duration != h.Duration {
		h.OtherDuration = t.Spec.Duration
	}
}

// measure fills in the run's own value, at the scale of the published one.
func (h *figureEstimate) measure() {
	cell := findCell(h.result, h.Path, h.Test, h.Metric)
	if cell == nil || cell.N == 0 || !statistics.Finite(cell.Median) {
		return
	}
	if scale := h.result.Experiment.Scale; scale > 0 && statistics.Finite(scale) && h.metric.ScalesWithRate {
		h.Factor = scale
	}
	h.N, h.Measured = cell.N, cell.Median*h.Factor
	if cell.Low != nil && cell.High != nil && statistics.Finite(*cell.Low) && statistics.Finite(*cell.High) {
		low, high := *cell.Low*h.Factor, *cell.High*h.Factor
		h.Low, h.High = &low, &high
	}
	if ratioable(h.Value) && h.Measured > 0 {
		h.Ratio = h.Measured / h.Value
	}
}

// takeRatio changes the basis to the ratio where that is what the testbed can
// bear and the published one is known. The measured one is 0 where no trial of the
// baseline counts.
func (h *figureEstimate) takeRatio() bool {
	baseline := baselineOf(h.result)
	if !h.result.Testbed.Relative || !dependsOnMachine(h.metric) || baseline == "" || h.Path == baseline {
		return false
	}
	published := h.publishedBaseline(baseline)
	if !ratioable(published) || !ratioable(h.Value) || h.Measured <= 0 {
		return false
	}
	h.Basis = result.BasisRatio
	h.PublishedRatio = h.Value / published
	cell := findCell(h.result, baseline, h.Test, h.Metric)
	if cell == nil || cell.N == 0 || !ratioable(cell.Median) {
		return true
	}
	h.MeasuredRatio = h.Measured / (cell.Median * h.Factor)
	if ratios := h.blockRatios(baseline); len(ratios) > 0 {
		h.MeasuredRatio = statistics.MedianOfSorted(ratios)
		if i, ok := statistics.MedianInterval(ratios, 1-DefaultOptions().Alpha); ok && len(ratios) >= minBlocks {
			r := h.trials.contrastResolution(result.Contrast{Path: h.Path, Baseline: baseline}, h.trials.run().Test(h.Test), h.metric)
			i = widened(i, h.MeasuredRatio, expanded(r.share, 1-DefaultOptions().Alpha)*h.MeasuredRatio)
			h.RatioLow, h.RatioHigh = &i.Low, &i.High
		}
	}
	return true
}

// blockRatios are the ratios of the path to the baseline within blocks, in
// order of size.
func (h *figureEstimate) blockRatios(baseline string) []float64 {
	reference := map[int]float64{}
	for _, t := range h.trials.cells[cellKey{baseline, h.Test}] {
		reference[t.Block] = t.Metrics[h.Metric]
	}
	var out []float64
	for _, t := range h.trials.cells[cellKey{h.Path, h.Test}] {
		if v, w := t.Metrics[h.Metric], reference[t.Block]; ratioable(v) && ratioable(w) {
			out = append(out, v/w)
		}
	}
	slices.Sort(out)
	return out
}

// publishedBaseline is the published value of the same test and metric on the
// baseline, the median where it was published more than once; 0 without any. A figure
// that is not of the experiment has its baseline among those it was chosen with: that
// of the experiment is of another study.
func (h *figureEstimate) publishedBaseline(baseline string) float64 {
	lists := [][]result.Figure{h.figures}
	own := h.result.Experiment.Published
	if slices.ContainsFunc(own, func(f result.Figure) bool { return f.ID == h.ID }) {
		lists = append(lists, own)
	}
	for _, list := range lists {
		var values []float64
		for _, f := range list {
			if f.Path == baseline && f.Test == h.Test && f.Metric == h.Metric {
				values = append(values, f.Value)
			}
		}
		if len(values) > 0 {
			return statistics.Median(values)
		}
	}
	return 0
}

// dependsOnMachine says that a testbed on one machine cannot give the absolute
// figure: rates, times and what they cost. Hops, sizes and shares it can.
func dependsOnMachine(m measurement.Metric) bool {
	switch m.Unit {
	case measurement.Bytes, measurement.Fraction:
		return false
	case measurement.Count:
		return strings.HasSuffix(m.Name, "_per_second") || strings.HasSuffix(m.Name, "_per_minute")
	}
	return true
}

// judge holds the whole interval of what was measured against the tolerance: a
// point alone may be on the right side by chance.
func (h *figureEstimate) judge(low, high *float64, published float64) {
	least, most := 0.0, 0.0
	switch {
	case h.ToleranceFactor > 0:
		least, most = published/h.ToleranceFactor, published*h.ToleranceFactor
	case h.Tolerance != nil:
		least, most = published*(1-*h.Tolerance), published*(1+*h.Tolerance)
	default:
		h.Judgement = result.NotJudged
		return
	}
	const rounding = 1e-9
	least, most = least*(1-rounding), most*(1+rounding)
	switch {
	case low == nil || high == nil:
		h.Judgement = result.Undecided
	case *low >= least && *high <= most:
		h.Judgement = result.Inside
	case *high < least || *low > most:
		h.Judgement = result.Outside
	default:
		h.Judgement = result.Undecided
	}
}

// whyNotMeasured says why no trial of the figure counts, and how many gates
// excluded.
func (h *figureEstimate) whyNotMeasured() (result.Missing, int) {
	done, passed := 0, 0
	for i := range h.result.Trials {
		if t := &h.result.Trials[i]; t.Path == h.Path && t.Test == h.Test {
			done++
			if t.Gate.Passed {
				passed++
			}
		}
	}
	switch {
	case done == 0:
		return result.MissingTrial, 0
	case passed == 0:
		return result.MissingAllExcluded, done
	}
	return result.MissingMetric, done - passed
}

// ratioable says that a ratio to v can be worked out.
func ratioable(v float64) bool { return v > 0 && statistics.Finite(v) }

func findCell(r *result.Result, path, test, metric string) *result.Cell {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Path == path && c.Test == test && c.Metric == metric {
			return c
		}
	}
	return nil
}

// baselineOf is the name of the path that the others are compared with.
func baselineOf(r *result.Result) string {
	for _, p := range r.Paths {
		if p.Baseline {
			return p.Name
		}
	}
	return r.Experiment.Baseline
}
