package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// model is what every rendering shows: the result put into the order and the
// words of a reader. Texts in it are single lines free of control characters,
// but not escaped for any medium.
type model struct {
	Run   *result.Result
	names words.Names

	Title     string
	Status    string // one line: when, blocks, trials, seed
	Statement string // what the figures are: a model, at a scale, relative
	ModelText string // how the parameters were derived

	Paths []path
	Tests []test

	Headline string
	Verdicts []verdict // of the primary costs
	Others   []verdict // of all other costs

	Table     table
	Details   []detail
	Seen      []string // what else was seen, a sentence each
	Hops      []hopSection
	Published []figureRow
	Excluded  []excluded
	Shares    []shareRow
	Notes     []string
	Open      []string
	Source    string // of the published figures
}

// path is a path of the run in its place in every figure.
type path struct {
	Name, Label string
	Baseline    bool
	Info        *result.PathInfo // nil when only trials name it
}

// test is a test of the run.
type test struct {
	Name, Label string
	Kind        measurement.Kind
	Spec        measurement.Spec
	Primary     measurement.Metric
	HasPrimary  bool
	Column      words.Column // how values of the primary metric are written
}

// verdict is one cost as a sentence.
type verdict struct {
	Kind       result.Verdict
	Text       string
	Path, Test string // labels
	Metric     string // label
	cost       result.Effect
}

// excluded is a trial that does not count, with its reasons.
type excluded struct {
	ID, Path, Test string
	Block          int
	Reason         string
}

// key names a metric of a test on a path.
type key struct{ Path, Test, Metric string }

// newModel arranges r. It never fails: what is absent is simply not shown.
func newModel(r *result.Result) *model {
	r = onlyFinite(r)
	m := &model{Run: r}
	m.Title = line(r.Experiment.Title)
	if m.Title == "" {
		m.Title = line(r.Experiment.Name)
	}
	if m.Title == "" {
		m.Title = "Untitled run"
	}
	m.Paths = pathsOf(r)
	m.Tests = testsOf(r)
	m.Status = m.status()
	m.Statement = m.statement()
	m.ModelText = sentence(r.Experiment.Model)
	m.Source = line(r.Experiment.Source)
	m.names = words.NamesIn(r)
	m.Notes = lines(m.names.Notes(r.Notes))
	m.Open = lines(r.Experiment.Open)
	m.scaleTests()
	m.verdicts()
	m.Excluded = m.excluded()
	m.Published = m.figureRows()
	m.Table = m.table()
	m.Details = slices.Concat(m.details(), m.pairDetails())
	m.Seen = m.seen()
	m.Hops = m.hopSections()
	m.Shares = m.shares()
	return m
}

// lines cleans a list of sentences and drops empty ones.
func lines(in []string) []string {
	var out []string
	for _, s := range in {
		if s = sentence(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// pathsOf lists the paths as the run declares them, the baseline first, and
// then any that only trials or cells name.
func pathsOf(r *result.Result) []path {
	var out []path
	seen := map[string]bool{}
	add := func(name string, info *result.PathInfo) {
		if seen[name] {
			return
		}
		seen[name] = true
		p := path{Name: name, Label: line(name), Info: info}
		if info != nil {
			if title := line(info.Title); title != "" {
				p.Label = title
			}
			p.Baseline = info.Baseline
		}
		p.Baseline = p.Baseline || (name != "" && name == r.Experiment.Baseline)
		if p.Label == "" {
			p.Label = "(unnamed path)"
		}
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
	slices.SortStableFunc(out, func(a, b path) int {
		switch {
		case a.Baseline == b.Baseline:
			return 0
		case a.Baseline:
			return -1
		}
		return 1
	})
	return out
}

// testsOf lists the tests likewise.
func testsOf(r *result.Result) []test {
	var out []test
	seen := map[string]bool{}
	add := func(name string, info *result.TestInfo) {
		if seen[name] {
			return
		}
		seen[name] = true
		t := test{Name: name, Label: line(name)}
		if info != nil {
			if title := line(info.Title); title != "" {
				t.Label = title
			}
			t.Spec = info.Spec
			t.Kind = info.Spec.Kind
			t.Primary, t.HasPrimary = measurement.PrimaryOf(t.Kind)
		}
		if t.Label == "" {
			t.Label = "(unnamed test)"
		}
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
func (m *model) cell(k key) *result.Cell {
	for i := range m.Run.Cells {
		if c := &m.Run.Cells[i]; c.Path == k.Path && c.Test == k.Test && c.Metric == k.Metric {
			return c
		}
	}
	return nil
}

// cost finds a path's cost on a metric of a test.
func (m *model) cost(k key) *result.Effect {
	for i := range m.Run.Costs {
		if c := &m.Run.Costs[i]; c.Path == k.Path && c.Test == k.Test && c.Metric == k.Metric {
			return c
		}
	}
	return nil
}

// scaleTests gives each test one display unit for its primary metric, chosen
// over all paths so that a column compares digit by digit, unless they are too
// far apart.
func (m *model) scaleTests() {
	for i := range m.Tests {
		t := &m.Tests[i]
		if !t.HasPrimary {
			continue
		}
		var medians, widths []float64
		for _, p := range m.Paths {
			if c := m.cell(key{p.Name, t.Name, t.Primary.Name}); c != nil && c.N > 0 {
				medians = append(medians, c.Median)
				if c.Low != nil && c.High != nil {
					widths = append(widths, *c.High-*c.Low)
				}
			}
		}
		t.Column = words.NewColumn(t.Primary.Unit, medians, widths)
	}
}

// status is the run in one line.
func (m *model) status() string {
	r := m.Run
	var parts []string
	if !r.Started.IsZero() {
		s := words.Moment(r.Started)
		if d := r.Ended.Sub(r.Started); !r.Ended.IsZero() && d > 0 {
			s += ", " + d.Round(time.Second).String()
		}
		parts = append(parts, s)
	}
	if r.Experiment.Blocks > 0 {
		parts = append(parts, quantity.Count(r.Experiment.Blocks, "block"))
	}
	parts = append(parts, m.trialCount(), fmt.Sprintf("seed %d", r.Seed))
	return strings.Join(parts, " · ")
}

// trialCount says how many trials there are, are planned and are excluded.
func (m *model) trialCount() string {
	r := m.Run
	s := quantity.Count(len(r.Trials), "trial")
	if r.Planned > len(r.Trials) {
		s = fmt.Sprintf("%d of %d trials", len(r.Trials), r.Planned)
		if !r.Complete {
			s += " (stopped early)"
		}
	}
	failed := 0
	for i := range r.Trials {
		if !r.Trials[i].Gate.Passed {
			failed++
		}
	}
	if failed > 0 {
		s += fmt.Sprintf(", %d excluded", failed)
	}
	return s
}

// scaled reports the scale of a scaled-down experiment.
func (m *model) scaled() (float64, bool) {
	s := m.Run.Experiment.Scale
	return s, s > 0 && s != 1
}

// pairs is how many pairs of hosts did the tests at the same time, 0 for one.
func (m *model) pairs() int {
	n := 0
	for i := range m.Run.Trials {
		n = max(n, len(m.Run.Trials[i].Pairs))
	}
	return n
}

// statement says what the figures are and are not.
func (m *model) statement() string {
	var parts []string
	s, isScaled := m.scaled()
	published := len(m.Run.Experiment.Published) > 0
	switch {
	case isScaled && published:
		parts = append(parts, fmt.Sprintf("This is a model of the published setting, at 1:%s: rates are multiplied by %s before they are compared with published ones; times are not scaled.", words.Scale(s), words.Scale(s)))
	case isScaled:
		parts = append(parts, fmt.Sprintf("This experiment is scaled down, at 1:%s; times are not scaled.", words.Scale(s)))
	case published:
		parts = append(parts, "This is a model of the published setting.")
	}
	if n := m.pairs(); n > 1 {
		parts = append(parts, fmt.Sprintf("%d pairs of hosts do every test at the same time; a trial is all of them together.", n))
	}
	if m.Run.Testbed.Relative {
		kind := line(m.Run.Testbed.Kind)
		if kind == "" {
			kind = "testbed"
		}
		why := "they measure its own machine as much as the path"
		if note := strings.TrimSuffix(sentence(m.Run.Testbed.Note), "."); note != "" {
			why = note
		}
		parts = append(parts, fmt.Sprintf("Figures of this %s are relative (%s): compare paths with each other, not with other machines.", kind, why))
	} else if note := sentence(m.Run.Testbed.Note); note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, " ")
}

// excluded lists the trials that a gate kept out, in the run's order.
func (m *model) excluded() []excluded {
	var out []excluded
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
		if t.Gate.Passed {
			continue
		}
		out = append(out, excluded{ID: line(t.ID), Path: m.pathLabel(t.Path), Test: m.testLabel(t.Test),
			Block: t.Block, Reason: sentence(words.Findings(t.Gate, true))})
	}
	return out
}

func (m *model) pathLabel(name string) string {
	for i := range m.Paths {
		if m.Paths[i].Name == name {
			return m.Paths[i].Label
		}
	}
	return line(name)
}

func (m *model) testLabel(name string) string {
	for i := range m.Tests {
		if m.Tests[i].Name == name {
			return m.Tests[i].Label
		}
	}
	return line(name)
}
