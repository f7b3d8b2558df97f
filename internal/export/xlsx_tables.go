package export

import (
	"slices"
	"strings"

	"github.com/xuri/excelize/v2"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// The sheets of a result, besides those of what was counted over time.
const (
	mediansSheet   = "medians"
	pathsSheet     = "paths"
	hopsSheet      = "hops"
	levelsSheet    = "levels"
	effectsSheet   = "effects"
	publishedSheet = "published"
)

// table is a sheet with a heading.
type table struct {
	name   string
	header []any
	rows   [][]any
}

// tables are those of a result whose numbers are all finite. One without rows is left out.
func tables(r *result.Result) (out []table) {
	paths := table{pathsSheet, []any{"path", "title", "baseline", "source", "destination", "variant_of", "tunnel"}, nil}
	hops := table{hopsSheet, []any{"path", "hop", "type", "name", "bypassed", "parameters"}, nil}
	for _, p := range r.Paths {
		paths.rows = append(paths.rows, []any{text(p.Name), text(p.Title), p.Baseline, text(p.Source), text(p.Dest), text(p.VariantOf), text(p.Tunnel)})
		for i, h := range p.Hops {
			parameters := strings.Join(words.Settings(h.Parameters, "="), " ")
			hops.rows = append(hops.rows, []any{text(p.Name), i + 1, text(h.Type), text(h.Name), h.Bypassed, text(parameters)})
		}
	}
	levels := table{levelsSheet, []any{"path", "test", "metric", "trials", "broken_trials", "median", "low", "high"}, nil}
	for _, c := range r.Cells {
		row := []any{text(c.Path), text(c.Test), text(c.Metric), c.N, c.Broken, c.Median, known(c.Low), known(c.High)}
		if c.N == 0 {
			row[5] = nil // broken trials have no value
		}
		levels.rows = append(levels.rows, row)
	}
	effects := table{effectsSheet, []any{"path", "baseline", "test", "metric", "against_path", "against_baseline", "pairs", "broken_pairs", "median", "baseline_median", "ratio", "ratio_low", "ratio_high", "difference", "difference_low", "difference_high", "p", "p_adjusted", "verdict", "primary"}, nil}
	for _, e := range r.Costs {
		row := []any{text(e.Path), text(e.Baseline), text(e.Test), text(e.Metric), nil, nil, e.N, e.Broken, median(e, e.Median, e.Broken), median(e, e.ReferenceMedian, e.ReferenceBroken), nil, known(e.Low), known(e.High), nil, known(e.DifferenceLow), known(e.DifferenceHigh), known(e.P), known(e.PAdjusted), text(string(e.Verdict)), e.Primary}
		if e.Against != nil {
			row[4], row[5] = text(e.Against.Path), text(e.Against.Baseline)
		}
		if e.Ratio != 0 {
			row[10] = e.Ratio
		}
		if e.Counted() > 0 && !e.EstimateUnbounded {
			row[13] = e.Difference
		}
		effects.rows = append(effects.rows, row)
	}
	published := table{publishedSheet, []any{"path", "test", "metric", "published", "measured", "measured_low", "measured_high", "factor", "trials", "judgement"}, nil}
	for _, p := range r.Published {
		row := []any{text(p.Path), text(p.Test), text(p.Metric), p.Value, nil, known(p.Low), known(p.High), p.Factor, p.N, text(string(p.Judgement))}
		if p.Judgement != result.NotMeasured {
			row[4] = p.Measured
		}
		published.rows = append(published.rows, row)
	}
	return slices.DeleteFunc([]table{paths, hops, levels, effects, published}, func(t table) bool { return len(t.rows) == 0 })
}

// median is that of a side of an effect, of which so many trials broke; nothing where none of
// them has a value.
func median(e result.Effect, v float64, broken int) any {
	if e.Unmeasured(v, broken, e.N) {
		return nil
	}
	return v
}

// text is a text of a cell: of one line, and no longer than a cell holds.
func text(s string) any {
	if s == "" {
		return nil
	}
	return shorten(typeset.Line(s), excelize.TotalCellChars)
}

// known is a number that may be absent.
func known(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// sheet writes a table as a sheet of that name.
func (b book) sheet(t table) error {
	if err := fits(len(t.rows), len(t.header), "read result.json"); err != nil {
		return err
	}
	out, err := b.stream(t.name, 0)
	if err != nil {
		return err
	}
	if err := out.fixed(t.header, t.rows); err != nil {
		return err
	}
	for _, row := range t.rows {
		if err := out.put(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// shape is a metric in the published shape: paths as rows, tests as columns.
type shape struct {
	metric, unit string
	table
}

// shapes are those of the primary metrics, with the median of each test on each path.
func shapes(r *result.Result) (out []shape) {
	type place struct{ path, test, metric string }
	medians := map[place]float64{}
	for _, c := range r.Cells {
		if c.N > 0 {
			medians[place{c.Path, c.Test, c.Metric}] = c.Median
		}
	}
	for _, m := range measurement.Catalogue() {
		s := shape{m.Name, string(m.Unit), table{header: []any{m.Name}}}
		var tests []string
		for _, t := range r.Tests {
			measured := func(p result.PathInfo) bool { _, ok := medians[place{p.Name, t.Name, m.Name}]; return ok }
			if t.Explains == "" && m.Leads(t.Spec.Kind) && slices.ContainsFunc(r.Paths, measured) {
				tests = append(tests, t.Name)
				s.header = append(s.header, text(t.Name))
			}
		}
		if len(tests) == 0 {
			continue
		}
		for _, p := range r.Paths {
			row := []any{text(p.Name)}
			for _, test := range tests {
				var cell any
				if v, ok := medians[place{p.Name, test, m.Name}]; ok {
					cell = v
				}
				row = append(row, cell)
			}
			s.rows = append(s.rows, row)
		}
		out = append(out, s)
	}
	return out
}

// shapes writes the medians of each primary metric, with a chart to the right of them:
// a group of bars for each path, a bar for each test.
func (b book) shapes(all []shape) error {
	if len(all) == 0 {
		return nil
	}
	out, err := b.stream(mediansSheet, 0)
	if err != nil {
		return err
	}
	widest := 0
	for _, s := range all {
		widest = max(widest, len(s.header))
	}
	if err := fits(0, widest, "read result.json"); err != nil {
		return err
	}
	if err := out.SetColWidth(1, widest, columnWidth); err != nil {
		return err
	}
	top := 1
	for _, s := range all {
		// A drawing has to be there before the sheet is flushed.
		if err := b.shapeChart(s, widest+2, top); err != nil {
			return err
		}
		out.row = top - 1
		if err := out.heading(s.header); err != nil {
			return err
		}
		for _, row := range s.rows {
			if err := out.put(row); err != nil {
				return err
			}
		}
		top += max(len(s.rows)+2, chartRows)
	}
	return out.Flush()
}
