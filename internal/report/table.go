package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

func newVerdict(e result.Effect, names words.Names) Verdict {
	return Verdict{Kind: e.Verdict, Text: typeset.Sentence(names.Effect(e)), cost: e}
}

// VerdictClass is the style of a verdict.
func (v Verdict) VerdictClass() string { return verdictClass(v.Kind) }

// VerdictWord is the verdict in a word or two.
func (v Verdict) VerdictWord() string { return typeset.Line(words.Verdict(v.cost)) }

// VerdictClass is the style of a cell's verdict.
func (c Cell) VerdictClass() string { return verdictClass(c.VerdictKind) }

func verdictClass(k result.Verdict) string {
	switch k {
	case result.Costs, result.Breaks:
		return "v-costs"
	case result.Gains, result.NoCost:
		return "v-fine"
	}
	return "v-open"
}

// table is the result in the published shape: paths as rows, tests as columns.
type table struct {
	Columns []column
	Rows    []Row
}

// column heads a test.
type column struct {
	Test   string // label
	Metric string // label of the metric
}

// Row is one path.
type Row struct {
	Path     string
	Baseline bool
	Off      string // "without gateway", where hops are switched off
	Cells    []Cell
}

// Cell is one test on one path, as text ready to show.
type Cell struct {
	Value    string // median without its unit, words.None when there is none
	Unit     string
	Interval string // "" when there are too few blocks for one
	// Blocks is "7 of 10 blocks, 2 broken" where trials do not count, else "".
	Blocks string

	Cost         string // difference from the baseline, "" on the baseline
	CostInterval string
	Ratio        string // of path to baseline: "3.71×"
	Verdict      string
	Needed       string // blocks that would resolve it
	ShowsFrom    string // the smallest effect that so many blocks show
	VerdictKind  result.Verdict

	Scaled    string   // value × scale, where that means something
	Published []string // the study's figures for this cell
}

// table lays the primary metrics out.
func (m *Model) table() table {
	var out table
	var shown []Test
	for _, t := range m.Tests {
		if !t.HasPrimary {
			continue // trace: shown with the paths
		}
		shown = append(shown, t)
		out.Columns = append(out.Columns, column{Test: t.Label, Metric: t.Primary.Label})
	}
	if len(shown) == 0 {
		return out
	}
	for _, p := range m.Paths {
		r := Row{Path: p.Label, Baseline: p.Baseline, Off: p.without()}
		for _, t := range shown {
			r.Cells = append(r.Cells, m.tableCell(p, t))
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// without names the hops that are switched off on a path.
func (p Path) without() string {
	var off []string
	if p.Info != nil {
		for _, h := range p.Info.Hops {
			if h.Bypassed {
				off = append(off, typeset.Line(h.Name))
			}
		}
	}
	if len(off) == 0 {
		return ""
	}
	return "without " + words.List(off)
}

// tableCell fills one cell.
func (m *Model) tableCell(p Path, t Test) Cell {
	k := Key{p.Name, t.Name, t.Primary.Name}
	out := Cell{Value: words.None, Published: m.publishedIn(p, t)}
	n, broken := 0, 0
	if c := m.cell(k); c != nil && c.N > 0 {
		n, broken = c.N, c.Broken
		var write func(float64) string
		out.Value, out.Unit, write = t.Column.Split(c.Median)
		if c.Low != nil && c.High != nil {
			out.Interval = words.Interval(*c.Low, *c.High, write)
		}
		if m.ScaledBy != "" && t.Primary.ScalesWithRate {
			out.Scaled = words.Value(c.Median*m.Run.Experiment.Scale, t.Primary.Unit)
		}
	} else {
		broken = m.brokenBlocks(p, t)
	}
	if blocks := m.Run.Experiment.Blocks; n < blocks {
		out.Blocks = fmt.Sprintf("%d of %s", n, quantity.Count(blocks, "block"))
		if broken > 0 {
			out.Blocks += fmt.Sprintf(", %d broken", broken)
		}
	}
	if c := m.Cost(k); c != nil && !p.Baseline {
		out.Cost, out.CostInterval = words.Size(*c)
		out.Ratio = words.Ratio(c.Ratio)
		out.Verdict, out.Needed, out.VerdictKind = typeset.Line(words.Verdict(*c)), words.Needed(*c), c.Verdict
		out.ShowsFrom = words.Detectable(*c)
	}
	return out
}

// brokenBlocks counts the blocks in which a path broke its trial of a test. Where it broke
// all of them there is no cell that would say it.
func (m *Model) brokenBlocks(p Path, t Test) int {
	blocks := map[int]bool{}
	for _, trial := range m.Trials(p, t) {
		if trial.Gate.Broken {
			blocks[trial.Block] = true
		}
	}
	return len(blocks)
}

// publishedIn lists the published figures of a cell: the one on the primary
// metric alone if there is one, else all with the name of their metric.
func (m *Model) publishedIn(p Path, t Test) []string {
	var out []string
	for _, f := range m.Run.Experiment.Published {
		if f.Path != p.Name || f.Test != t.Name {
			continue
		}
		metric, ok := measurement.MetricNamed(f.Metric)
		if !ok {
			continue
		}
		s := t.Column.ScaleOf(f.Value)
		if metric.Unit != t.Primary.Unit || metric.ScalesWithRate {
			s = quantity.ScaleFor(metric.Unit, f.Value)
		}
		text := words.Printed(f.Value, s)
		if f.Metric == t.Primary.Name {
			return []string{text}
		}
		out = append(out, strings.TrimPrefix(metric.Label, "RTT ")+" "+text)
	}
	return out
}

// verdicts writes the costs as sentences, of each test what costs first, and picks the
// headline.
func (m *Model) verdicts() {
	for _, p := range m.Paths {
		for _, t := range m.Tests {
			var costs []*result.Effect
			for i := range m.Run.Costs {
				if c := &m.Run.Costs[i]; c.Path == p.Name && c.Test == t.Name {
					costs = append(costs, c)
				}
			}
			slices.SortStableFunc(costs, func(a, b *result.Effect) int { return harmless(a.Verdict) - harmless(b.Verdict) })
			for _, c := range costs {
				v := newVerdict(*c, m.names)
				v.Test, v.Metric = t.Label, typeset.Line(measurement.MetricOf(c.Metric).Label)
				if c.Primary || (t.HasPrimary && c.Metric == t.Primary.Name) {
					m.Verdicts = append(m.Verdicts, v)
				} else {
					m.Others = append(m.Others, v)
				}
			}
		}
	}
	m.Headline = m.headline()
}

// harmless is 0 of what costs, which leads, and 1 of all else.
func harmless(v result.Verdict) int {
	if v == result.Costs || v == result.Breaks {
		return 0
	}
	return 1
}

// headline is what a reader must know first.
func (m *Model) headline() string {
	var costs []result.Effect
	for _, v := range m.Verdicts {
		costs = append(costs, v.cost)
	}
	return typeset.UpperFirst(typeset.Sentence(m.names.Headline(costs, len(m.Paths), len(m.Run.Trials))))
}
