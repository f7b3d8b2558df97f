package analysis

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Options are what an analysis takes for granted. The zero value means the
// defaults.
type Options struct {
	cause.Options
	// Alpha is the chance of a false claim among the primary costs of a
	// report; default 0.05. Intervals are at 1 − Alpha.
	Alpha float64
	// Matters are the user's margins, by the metric's name; the others are the
	// catalogue's.
	Matters map[string]measurement.Margin
	// Contrasts are the comparisons of the report; none compares each path with
	// the path flagged as the baseline.
	Contrasts []result.Contrast
	// Rules are how many rules the firewalls of a lab have, by path and by their names there.
	Rules map[string]map[string]int
	// MinBlocks is the number of pairs below which there is no interval and no
	// claim; default 6, the fewest that allow a 95 % interval of a median.
	MinBlocks int
}

// DefaultOptions are the options of a report.
func DefaultOptions() Options { return Options{}.Defaults() }

// Defaults fills in the fields that are zero or make no sense.
func (o Options) Defaults() Options {
	if !(o.Alpha > 0 && o.Alpha < 0.5) {
		o.Alpha = 0.05
	}
	if o.MinBlocks < minBlocks {
		o.MinBlocks = minBlocks
	}
	return o
}

// margin is the smallest effect on a metric that matters. A margin of the user's
// that is not on the metric's scale counts as none.
func (o Options) margin(m measurement.Metric) measurement.Margin {
	margin := o.Matters[m.Name]
	set := margin.Amount
	if m.ByRatio() {
		set = margin.Fraction
	}
	if !(set > 0) || math.IsInf(set, 0) || (m.ByRatio() && set >= 1) {
		return m.MarginIn(o.Lab)
	}
	return margin
}

// minBlocks is the smallest n whose extreme signed-rank p, 2^(1−n), is below
// 0.05.
const minBlocks = 6

// Analysis is what trials say.
type Analysis struct {
	Cells        []result.Cell
	Costs        []result.Effect
	Attributions []result.Attribution
	Notes        []result.Note // of the whole run
}

// Analyse compares the paths as the contrasts ask, each with the one flagged as the
// baseline where they ask nothing. Trials that their path broke are the worst of
// all; others whose gate failed do not count. The notes say how many and why. The
// order of trials does not matter.
func Analyse(trials []measurement.Trial, tests []result.TestInfo, paths []result.PathInfo, opts Options) Analysis {
	opts = opts.Defaults()
	set, notes := gather(trials, tests, paths)
	out := Analysis{Notes: append(cpuNotes(trials), notes...)}
	out.Cells = cells(set, 1-opts.Alpha)
	comparisons, compareNotes := compareAll(set, opts)
	for _, c := range comparisons {
		out.Costs = append(out.Costs, c.Effect)
	}
	out.Notes = append(out.Notes, compareNotes...)
	run := set.run()
	out.Attributions = cause.Attribute(run, opts.Options)
	cause.FindCommonLimits(run, out.Costs, out.Attributions, opts.Options)
	return out
}

// Fill analyses the trials of a run into the run itself.
func Fill(r *result.Result, opts Options) {
	opts.Variations = r.Variations
	a := Analyse(r.Trials, r.Tests, r.Paths, opts)
	r.Cells, r.Costs, r.Attributions = a.Cells, a.Costs, a.Attributions
	r.Notes = append(append(r.Notes, a.Notes...), slices.Concat(tunnelNotes(r.Paths, opts.Rules), sameHopsNotes(r.Paths, r.Trials))...)
	r.Published = ComparePublished(r, r.Experiment.Published)
}

// Vary lists tests to do again with one thing changed: one for each test on each path of
// which neither its own trials nor the variations of the options tell what limited it,
// while that one may.
func Vary(trials []measurement.Trial, tests []result.TestInfo, paths []result.PathInfo, opts Options) []result.Variation {
	set, _ := gather(trials, tests, paths)
	return cause.Vary(set.run(), opts.Options)
}

// Upgrade makes a result of format 1 one of today's: it analyses the trials
// again. The notes stay as they were written, and so do the shares of the
// attributions, which depend on more than the trials.
func Upgrade(r *result.Result) {
	notes, shares := r.Notes, map[cellKey]map[result.Cause]float64{}
	for _, a := range r.Attributions {
		shares[cellKey{a.Path, a.Test}] = a.Shares
	}
	Fill(r, DefaultOptions())
	r.Format, r.OldFormat, r.Notes = result.Format, true, notes
	for i := range r.Attributions {
		if a := &r.Attributions[i]; shares[cellKey{a.Path, a.Test}] != nil {
			a.Shares = shares[cellKey{a.Path, a.Test}]
		}
	}
}

// cellKey names the trials of one test on one path.
type cellKey struct{ path, test string }

// dataset is the trials that count, in one order, by cell.
type dataset struct {
	tests []result.TestInfo
	paths []result.PathInfo
	cells map[cellKey][]measurement.Trial
	// before is the path of the trial before each.
	before map[trialPlace]string
	// broken are the blocks in which the path broke the trial of a cell.
	broken map[cellKey]map[int]bool
	// blocks is how many blocks had any trial at all.
	blocks int
}

// run is the trials of the set, for who asks for the causes of their rates.
func (s *dataset) run() cause.Run {
	return cause.Run{Tests: s.tests, Paths: s.paths, Trials: func(path, test string) []measurement.Trial { return s.cells[cellKey{path, test}] }}
}

// gather keeps the trials that count and says what it left out.
func gather(trials []measurement.Trial, tests []result.TestInfo, paths []result.PathInfo) (*dataset, []result.Note) {
	ordered := slices.Clone(trials)
	slices.SortStableFunc(ordered, func(a, b measurement.Trial) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Order, b.Order),
			cmp.Compare(a.ID, b.ID), a.Start.Compare(b.Start))
	})
	set := &dataset{tests: tests, paths: paths, cells: map[cellKey][]measurement.Trial{}, broken: map[cellKey]map[int]bool{}}
	known := map[cellKey]bool{}
	for _, p := range paths {
		for _, t := range tests {
			known[cellKey{p.Name, t.Name}] = true
		}
	}
	blocks := map[int]bool{}
	taken := map[trialPlace]bool{}
	var excluded, broken []measurement.Trial
	repeated, foreign := 0, 0
	for _, t := range ordered {
		key := cellKey{t.Path, t.Test}
		blocks[t.Block] = true
		switch {
		case !known[key]:
			foreign++
		case !t.Gate.Passed && !t.Gate.Broken:
			excluded = append(excluded, t)
		case taken[trialPlace{key, t.Block}]:
			repeated++
		case t.Gate.Broken:
			taken[trialPlace{key, t.Block}] = true
			broken = append(broken, t)
			if set.broken[key] == nil {
				set.broken[key] = map[int]bool{}
			}
			set.broken[key][t.Block] = true
		default:
			taken[trialPlace{key, t.Block}] = true
			set.cells[key] = append(set.cells[key], t)
		}
	}
	set.blocks, set.before = len(blocks), predecessors(ordered)
	notes := slices.Concat(exclusionNotes(result.NoteExcludedTrials, excluded, len(trials)), exclusionNotes(result.NoteBrokenTrials, broken, len(trials)))
	if repeated > 0 {
		notes = append(notes, result.Note{Code: result.NoteRepeatedTrials, Count: repeated})
	}
	if foreign > 0 {
		notes = append(notes, result.Note{Code: result.NoteForeignTrials, Count: foreign})
	}
	return set, notes
}

// outcomes are the finite values of a metric by block, and the worst of all
// values where the path broke the trial, or lost the request that a percentile
// falls on.
func (s *dataset) outcomes(path, test string, m measurement.Metric) map[int]float64 {
	out := map[int]float64{}
	for _, t := range s.cells[cellKey{path, test}] {
		if v, ok := t.Metrics[m.Name]; ok && statistics.Finite(v) {
			out[t.Block] = v
		} else if !ok && percentileLost(t, m.Name) {
			out[t.Block] = worst(m)
		}
	}
	for block := range s.broken[cellKey{path, test}] {
		out[block] = worst(m)
	}
	return out
}

// percentileLost says that a percentile of a trial falls on a request that was
// never answered, which is infinitely late (RFC 2681, 2.4; RFC 7679, 3.4).
func percentileLost(t measurement.Trial, metric string) bool {
	loss := t.Metrics["loss_fraction"]
	switch {
	case strings.Contains(metric, "_p50_"):
		return loss > 0.5
	case strings.Contains(metric, "_p99_"):
		return loss > 0.01
	}
	return false
}

// worst is beyond any value that a trial can bring back.
func worst(m measurement.Metric) float64 {
	if m.HigherIsBetter {
		return math.Inf(-1)
	}
	return math.Inf(1)
}
