// Package report arranges a run, a comparison or an index for a reader: one model
// in the order of a page, from which every rendering is made, so that no two of
// them can disagree. Packages below it lay the model out: figure draws, html,
// terminal and markdown write pages, summary a single path's tests, data CSV and
// JSON for other programs.
//
// Its only input is a document of package result: a stored run is shown again
// without measuring. Texts are worded by package words. Names and texts of a
// result come from a user's file or from another machine and are treated as
// hostile: they are made single lines without control characters here and escaped
// for the medium where they are written, and numbers that are not finite are left
// out and counted.
package report

import (
	"cmp"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Pair is a name and its value.
type Pair struct{ Name, Value string }

// Model is what every rendering shows: the result put into the order and the
// words of a reader. Texts in it are single lines free of control characters,
// but not escaped for any medium.
type Model struct {
	Run   *result.Result
	names words.Names

	Title     string
	Status    string // one line: when, blocks, trials, seed
	Statement string // what the figures are: a model, at a scale, relative
	ModelText string // how the parameters were derived

	Paths []Path
	Tests []Test

	// Above is what a reader must know before the verdicts.
	Above    []string
	Headline string
	Verdicts []Verdict // of the primary costs
	Others   []Verdict // of all other costs

	Table    table
	Details  []detail
	Seen     []string // what else was seen, a sentence each
	Hops     []hopSection
	MoreHops string // what is left out of Hops
	PublishedTable
	Tally    []string // of those figures
	Excluded []excluded
	Shares   []ShareRow
	Where    []string // endpoints and paths of a run on hosts, a sentence each
	Notes    []string
	Open     []string
	Source   string // of the published figures
}

// Path is a path of the run in its place in every figure.
type Path struct {
	Name, Label string
	Baseline    bool
	Info        *result.PathInfo // nil when only trials name it
}

// Test is a test of the run.
type Test struct {
	Name, Label string
	Kind        measurement.Kind
	Spec        measurement.Spec
	Primary     measurement.Metric
	HasPrimary  bool
	Column      words.Column // how values of the primary metric are written
}

// Descriptor is the descriptor of the test's kind.
func (t Test) Descriptor() kind.Kind {
	k, _ := kind.Of(t.Kind)
	return k
}

// details are the further metrics that the report shows.
func (t Test) details() []string {
	if k := t.Descriptor(); t.Spec.Direction == measurement.Both && k.BothWays != nil {
		return k.BothWays
	}
	return t.Descriptor().Details
}

// Verdict is one cost as a sentence.
type Verdict struct {
	Kind         result.Verdict
	Text         string
	Test, Metric string // labels
	cost         result.Effect
}

// excluded is a trial that does not count, with its reasons.
type excluded struct{ ID, Reason string }

// Key names a metric of a test on a path.
type Key struct{ Path, Test, Metric string }

// New arranges r. It never fails: what is absent is simply not shown.
func New(r *result.Result) *Model {
	r = OnlyFinite(r)
	m := &Model{Run: r}
	m.Title = cmp.Or(typeset.Line(r.Experiment.Title), typeset.Line(r.Experiment.Name), "Untitled run")
	m.Paths = pathsOf(r)
	m.Tests = testsOf(r)
	m.Status = words.Status(r)
	m.Statement = typeset.Sentence(words.Statement(r))
	m.ModelText = typeset.Sentence(r.Experiment.Model)
	m.Source = typeset.Line(r.Experiment.Source)
	m.names = words.NamesIn(r)
	above, others := words.BeforeVerdicts(r.Notes)
	m.Above, m.Notes = typeset.Lines(m.names.Notes(above)), typeset.Lines(m.names.Notes(others))
	m.Where = typeset.Lines(words.Where(r))
	m.Open = typeset.Lines(r.Experiment.Open)
	m.scaleTests()
	m.verdicts()
	m.Excluded = m.excluded()
	m.PublishedTable, m.Tally = PublishedTable{m.figureRows(), words.ScaledBy(r.Experiment.Scale)}, words.Tally(r.Published)
	m.Table = m.table()
	m.Details = slices.Concat(m.details(), m.pairDetails())
	m.Seen = m.seen()
	m.Hops, m.MoreHops = m.hopSections()
	m.Shares = m.shares()
	return m
}

// pathsOf lists the paths as the run declares them, the baseline first, and
// then any that only trials or cells name.
func pathsOf(r *result.Result) []Path {
	var out []Path
	seen := map[string]bool{}
	add := func(name string, info *result.PathInfo) {
		if seen[name] {
			return
		}
		seen[name] = true
		p := Path{Name: name, Info: info, Baseline: name != "" && name == r.Experiment.Baseline}
		title := ""
		if info != nil {
			title, p.Baseline = info.Title, p.Baseline || info.Baseline
		}
		p.Label = label(title, name, "(unnamed path)")
		out = append(out, p)
	}
	for i := range r.Paths {
		add(r.Paths[i].Name, &r.Paths[i])
	}
	for i := range r.Cells {
		add(r.Cells[i].Path, nil)
	}
	for i := range r.Trials {
		add(r.Trials[i].Path, nil)
	}
	place := func(p Path) int {
		if p.Baseline {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Path) int { return place(a) - place(b) })
	return out
}

// label is what a path or a test is called, which may have neither a title nor a name.
func label(title, name, unnamed string) string {
	return cmp.Or(words.LeftToRight(cmp.Or(typeset.Line(title), typeset.Line(name))), unnamed)
}

// testsOf lists the tests likewise.
func testsOf(r *result.Result) []Test {
	var out []Test
	seen := map[string]bool{}
	add := func(name string, info *result.TestInfo) {
		if seen[name] {
			return
		}
		seen[name] = true
		t := Test{Name: name}
		title := ""
		if info != nil {
			title = info.Title
			t.Spec = info.Spec
			t.Kind = info.Spec.Kind
			t.Primary, t.HasPrimary = measurement.PrimaryOf(t.Kind)
		}
		t.Label = label(title, name, "(unnamed test)")
		out = append(out, t)
	}
	for i := range r.Tests {
		add(r.Tests[i].Name, &r.Tests[i])
	}
	for i := range r.Trials {
		add(r.Trials[i].Test, nil)
	}
	return out
}

// cell finds one metric of a test on a path.
func (m *Model) cell(k Key) *result.Cell {
	for i := range m.Run.Cells {
		if c := &m.Run.Cells[i]; c.Path == k.Path && c.Test == k.Test && c.Metric == k.Metric {
			return c
		}
	}
	return nil
}

// Cost finds a path's cost on a metric of a test, against the baseline.
func (m *Model) Cost(k Key) *result.Effect {
	for i := range m.Run.Costs {
		if c := &m.Run.Costs[i]; c.Path == k.Path && c.Test == k.Test && c.Metric == k.Metric && c.Against == nil && m.isBaseline(c.Baseline) {
			return c
		}
	}
	return nil
}

func (m *Model) isBaseline(name string) bool {
	return slices.ContainsFunc(m.Paths, func(p Path) bool { return p.Baseline && p.Name == name })
}

// scaleTests gives each test one display unit for its primary metric, chosen
// over all paths so that a column compares digit by digit, unless they are too
// far apart.
func (m *Model) scaleTests() {
	for i := range m.Tests {
		t := &m.Tests[i]
		if !t.HasPrimary {
			continue
		}
		var medians, widths []float64
		for _, p := range m.Paths {
			if c := m.cell(Key{p.Name, t.Name, t.Primary.Name}); c != nil && c.N > 0 {
				medians = append(medians, c.Median)
				if c.Low != nil && c.High != nil {
					widths = append(widths, *c.High-*c.Low)
				}
			}
		}
		t.Column = words.NewColumn(t.Primary.Unit, medians, widths)
	}
}

// ExcludedName is what the trials are that gates kept out, or that their paths broke, which
// count as the worst.
func (m *Model) ExcludedName() string {
	switch excluded, broken := m.Run.NotPassed(); {
	case broken == 0:
		return "Excluded"
	case excluded == 0:
		return "Broken"
	}
	return "Excluded or broken"
}

// excluded lists the trials that a gate kept out or a path broke, in the run's order.
func (m *Model) excluded() []excluded {
	var out []excluded
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
		if !t.Gate.Passed {
			out = append(out, excluded{typeset.Line(t.ID), typeset.Sentence(words.Findings(t.Gate, true))})
		}
	}
	return out
}

func (m *Model) PathLabel(name string) string {
	for i := range m.Paths {
		if m.Paths[i].Name == name {
			return m.Paths[i].Label
		}
	}
	return typeset.Line(name)
}

func (m *Model) TestLabel(name string) string {
	for i := range m.Tests {
		if m.Tests[i].Name == name {
			return m.Tests[i].Label
		}
	}
	return typeset.Line(name)
}

// PathColours is how many colours the style sheet has for paths.
const PathColours = 7

// PathColour is the number of a path's colour by its position; the first is the
// baseline's grey.
func PathColour(path int) int {
	if path >= PathColours {
		path = 1 + (path-1)%(PathColours-1)
	}
	return path
}
