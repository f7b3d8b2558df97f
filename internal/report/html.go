package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var pageCSS string

// page is the template, parsed when the first page is rendered: other commands
// start without it.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("page").Parse(pageHTML)).Parse(publishedHTML))
})

// HTML writes the report as one self-contained page. It needs no network and
// no script, and its content security policy forbids both.
func HTML(w io.Writer, r *result.Result) error {
	var b strings.Builder
	if err := page().Execute(&b, newPageData(newModel(r))); err != nil {
		return fmt.Errorf("render HTML report: %w", err)
	}
	return flush(w, b.String(), "HTML report")
}

// pageData is what the template shows.
type pageData struct {
	*model
	CSS        template.CSS
	ScaleName  string // "10", "" when not scaled
	CostsWide  template.HTML
	CostsSmall template.HTML
	Band       bool // the plot of costs shades effects too small to matter
	ShareBars  []shareBar
	Routes     []route
	Throughput []figure
	RTT        []figure
	HopFigures []figure
	Pairs      []figure
	Order      []figure
	Latency    []figure
	Dashed     bool // some curves of Latency are from before a load
	Facts      []pair
	Command    string
	Specs      []pair
	Trials     []trialRow
	Text       string
}

// pair is a name and its value.
type pair struct{ Name, Value string }

func newPageData(m *model) pageData {
	r := m.Run
	d := pageData{model: m, CSS: template.CSS(pageCSS),
		CostsWide: m.costFigure("costs-wide", wideCosts()), CostsSmall: m.costFigure("costs-narrow", narrowCosts()),
		ShareBars: m.shareBars(), Routes: m.routes(),
		Throughput: m.throughputFigures(), RTT: m.rttFigures(), HopFigures: m.hopFigures(), Pairs: m.pairFigures(), Order: m.orderFigures(), Latency: m.latencyFigures(),
		Facts: m.facts(), Command: command(r), Specs: m.specs(), Trials: m.trialRows(), Text: clean(r.Experiment.Text, true)}
	if s, ok := m.scaled(); ok {
		d.ScaleName = words.Scale(s)
	}
	d.Dashed = slices.ContainsFunc(m.Tests, func(t test) bool { return t.Kind == measurement.Load })
	d.Band = strings.Contains(string(d.CostsWide), `class="band"`)
	return d
}

// PublishedTable is that of the page.
func (d pageData) PublishedTable() publishedTable { return publishedTable{d.ScaleName, d.Published} }

// VerdictClass is the style of a verdict.
func (v verdict) VerdictClass() string { return verdictClass(v.Kind) }

// VerdictWord is the verdict in a word or two.
func (v verdict) VerdictWord() string { return line(words.Verdict(v.cost)) }

// VerdictClass is the style of a cell's verdict.
func (c cell) VerdictClass() string { return verdictClass(c.VerdictKind) }

func verdictClass(k result.Verdict) string {
	switch k {
	case result.Costs:
		return "v-costs"
	case result.Gains, result.NoCost:
		return "v-fine"
	}
	return "v-open"
}

// facts is the environment, with the seed and the format first.
func (m *model) facts() []pair {
	r := m.Run
	out := []pair{{"seed", fmt.Sprint(r.Seed)}}
	add := func(name, value string) {
		if value = line(value); value != "" {
			out = append(out, pair{line(name), value})
		}
	}
	if !r.Started.IsZero() {
		add("started", r.Started.UTC().Format(time.RFC3339))
	}
	if !r.Ended.IsZero() {
		add("ended", r.Ended.UTC().Format(time.RFC3339))
	}
	add("testbed", r.Testbed.Kind)
	for _, k := range slices.Sorted(maps.Keys(r.Environment)) {
		add(strings.ReplaceAll(k, "_", " "), r.Environment[k])
	}
	add("result format", r.Format)
	return out
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// shellWord quotes a word for a POSIX shell.
func shellWord(s string) string {
	if s = line(s); plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// command repeats the run.
func command(r *result.Result) string {
	words := make([]string, len(r.Command))
	for i, word := range r.Command {
		words[i] = shellWord(word)
	}
	return strings.Join(words, " ")
}

// specs says how each test was done.
func (m *model) specs() []pair {
	var out []pair
	for _, t := range m.Tests {
		if t.Kind != "" {
			out = append(out, pair{t.Label, line(words.Spec(t.Spec))})
		}
	}
	return out
}

// trialRow is a row of the table of all trials.
type trialRow struct {
	Order, Block     int
	ID, Path, Test   string
	Value            string
	Warmup           string
	CPU              string // source / destination
	Passed           bool
	Reasons          string // of failed gates and warnings
	Facts            string
	FingerprintTrack string
}

// trialRows lists every trial with its gate.
func (m *model) trialRows() []trialRow {
	out := make([]trialRow, 0, len(m.Run.Trials))
	byName := map[string]test{}
	for _, t := range m.Tests {
		byName[t.Name] = t
	}
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
		row := trialRow{Order: t.Order, Block: t.Block, ID: line(t.ID), Path: m.pathLabel(t.Path), Test: m.testLabel(t.Test),
			Value: "—", Passed: t.Gate.Passed, Reasons: sentence(words.Findings(t.Gate, false)), Facts: strings.Join(lines(t.Facts), " "), CPU: cpuText(t)}
		k := byName[t.Test]
		if v, ok := t.Metrics[k.Primary.Name]; ok && k.HasPrimary {
			row.Value = k.Column.Write(v)
		}
		if t.Warmup > 0 {
			row.Warmup = words.Unit(quantity.Number(float64(t.Warmup)*1e3, 0), "ms")
		}
		if t.Fingerprint != nil {
			row.FingerprintTrack = track(t.Fingerprint)
		}
		out = append(out, row)
	}
	return out
}

// cpuText is how busy both ends were.
func cpuText(t *measurement.Trial) string {
	if t.Source.CPUs == 0 && t.Destination.CPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f / %.0f", t.Source.CPUBusy*100, t.Destination.CPUBusy*100)
}
