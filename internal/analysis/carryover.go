package analysis

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// carryOverPermutations bounds how many assignments of orders to blocks are
	// drawn; drawing ends earlier once enoughExtremes were no less extreme than
	// what was seen (Besag & Clifford 1991).
	carryOverPermutations = 2000
	enoughExtremes        = 20
)

// predecessors gives the path that was measured just before each trial, by the trial's
// place. Before the first path of a block that is the trial before if it was of the same
// test, and otherwise none. In a plan of two stages the path before had other tests, too.
func predecessors(ordered []measurement.Trial) map[trialPlace]string {
	out := map[trialPlace]string{}
	last := map[string]string{} // path of the block, by test
	for i, t := range ordered {
		if i > 0 && ordered[i-1].Block != t.Block {
			clear(last)
		}
		at := trialPlace{cellKey{t.Path, t.Test}, t.Block}
		if _, repeated := out[at]; repeated {
			continue
		}
		before := last[t.Test]
		if before == "" && i > 0 && ordered[i-1].Test == t.Test {
			before = ordered[i-1].Path
		}
		if t.Attempt > 1 {
			before = "" // it was done again at the end of its block
		}
		out[at], last[t.Test] = before, t.Path
	}
	return out
}

// trialPlace names a trial of the plan.
type trialPlace struct {
	cellKey
	block int
}

// carryOver tests whether a metric depends on which path was measured just before.
// Its values, less what their block and their path have in common, are ranked and
// summed by predecessor. The orders of a run are random, so any block could have had
// any block's order: the sums are compared with those of orders dealt out anew.
func (s *dataset) carryOver(test string, metric measurement.Metric) *result.Violation {
	byPath := make([]map[int]float64, 0, len(s.paths))
	for _, p := range s.paths {
		values := s.outcomes(p.Name, test, metric)
		maps.DeleteFunc(values, func(_ int, v float64) bool { return math.IsInf(v, 0) })
		byPath = append(byPath, values)
	}
	var values []float64
	var before []string
	positive := true
	k, n := len(s.paths), 0
	blocks := map[int]bool{}
	for _, of := range byPath {
		for b := range of {
			blocks[b] = true
		}
	}
	for _, b := range slices.Sorted(maps.Keys(blocks)) {
		if slices.ContainsFunc(byPath, func(of map[int]float64) bool { _, ok := of[b]; return !ok }) {
			continue
		}
		n++
		for i, p := range s.paths {
			v := byPath[i][b]
			positive = positive && v > 0
			values = append(values, v)
			before = append(before, s.before[trialPlace{cellKey{p.Name, test}, b}])
		}
	}
	if n < minBlocks || k < 2 {
		return nil
	}
	if positive {
		values = logarithms(values)
	}
	residuals := lessMeans(values, n, k)
	extreme, drawn := permuteOrders(residuals, before, n, k)
	p := float64(extreme+1) / float64(drawn+1)
	if extreme >= enoughExtremes {
		p = float64(extreme) / float64(drawn)
	}
	if p >= orderAlpha {
		return nil
	}
	out := &result.Violation{Assumption: result.NoCarryOver, P: &p, Level: orderAlpha}
	size := 0.0
	for _, path := range s.paths {
		var with, without []float64
		for i, b := range before {
			if b == path.Name {
				with = append(with, residuals[i])
			} else {
				without = append(without, residuals[i])
			}
		}
		if d := statistics.Median(with) - statistics.Median(without); len(with) > 0 && len(without) > 0 && math.Abs(d) > math.Abs(size) {
			size, out.After = d, path.Name
		}
	}
	if positive {
		out.Ratio = math.Exp(size)
	} else {
		out.Difference = size
	}
	return out
}

// lessMeans takes from n rows of k values the mean of their row and of their
// column.
func lessMeans(values []float64, n, k int) []float64 {
	rows, columns, all := make([]float64, n), make([]float64, k), 0.0
	for i, v := range values {
		rows[i/k] += v / float64(k)
		columns[i%k] += v / float64(n)
		all += v / float64(n*k)
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v - rows[i/k] - columns[i%k] + all
	}
	return out
}

// permuteOrders counts how often orders that are dealt out anew to the n blocks of
// k trials separate the ranks of values at least as much as their own do.
func permuteOrders(values []float64, before []string, n, k int) (extreme, drawn int) {
	names := slices.Compact(slices.Sorted(slices.Values(before)))
	group := make([]int, len(before))
	size := make([]float64, len(names))
	for i, b := range before {
		group[i], _ = slices.BinarySearch(names, b)
		size[group[i]]++
	}
	// Rounding must not tell apart what is equal.
	rounded := make([]float64, len(values))
	scale := 0.0
	for _, v := range values {
		scale = math.Max(scale, math.Abs(v))
	}
	for i, v := range values {
		if scale > 0 {
			rounded[i] = math.Round(v / scale * 1e9)
		}
	}
	ranks := statistics.DoubledMidranks(rounded)
	mean := len(values) + 1
	sums := make([]float64, len(names))
	statistic := func(rows []int) float64 {
		clear(sums)
		for b, from := range rows {
			for i := range k {
				sums[group[from*k+i]] += float64(ranks[b*k+i] - mean)
			}
		}
		out := 0.0
		for g, s := range sums {
			out += s * s / size[g]
		}
		return out
	}
	rows := make([]int, n)
	for b := range rows {
		rows[b] = b
	}
	observed := statistic(rows) * (1 - 1e-9)
	r := rand.New(rand.NewPCG(uint64(n), uint64(k))) // the same trials give the same report
	for drawn < carryOverPermutations && extreme < enoughExtremes {
		for i := n - 1; i > 0; i-- {
			j := r.IntN(i + 1)
			rows[i], rows[j] = rows[j], rows[i]
		}
		drawn++
		if statistic(rows) >= observed {
			extreme++
		}
	}
	return extreme, drawn
}

func logarithms(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = logOf(v)
	}
	return out
}
