// Package html writes a report, or an index of several, as one self-contained page.
package html

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
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
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// headHTML begins every page.
//
//go:embed head.html
var headHTML string

//go:embed page.html
var pageHTML string

//go:embed style.css
var pageCSS string

//go:embed page.js
var pageJS string

// page is the template, parsed when the first page is rendered: other commands
// start without it.
var page = sync.OnceValue(func() *template.Template { return parsed(pageHTML, publishedHTML) })

// parsed is the page of the first text, which begins with the head, ends with the foot and
// may use the others.
func parsed(texts ...string) *template.Template {
	t := template.New("page").Funcs(template.FuncMap{
		"css":    func() template.CSS { return template.CSS(pageCSS) },
		"script": func() template.JS { return template.JS(inline()) },
		"policy": func() string {
			return "default-src 'none'; style-src 'unsafe-inline'; script-src " + ScriptSource() + "; base-uri 'none'; form-action 'none'"
		},
	})
	for _, text := range append(texts, headHTML) {
		template.Must(t.Parse(text))
	}
	return t
}

// Write writes the report as one self-contained page. It needs no network, and its content
// security policy forbids it and every script but the page's own, without which all of it
// can be read.
func Write(w io.Writer, r *result.Result) error {
	return render(w, page(), "page", newPageData(report.New(r)), "HTML report")
}

// render writes a part of a page, which what names in an error.
func render(w io.Writer, t *template.Template, part string, data any, what string) error {
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, part, data); err != nil {
		return fmt.Errorf("render %s: %w", what, err)
	}
	return typeset.Flush(w, withContents(b.String()), what)
}

// sectionHead begins a section of a page: its id and its heading.
var sectionHead = regexp.MustCompile(`<section id="([a-z]+)">\n<h2>(.*?)</h2>`)

// withContents is a page with a list of its sections in the place that it has for one, if it has
// one, and with headings that can be linked to.
func withContents(page string) string {
	const place = `<nav class="contents" aria-label="Contents">`
	if !strings.Contains(page, place) {
		return page
	}
	var list strings.Builder
	for _, m := range sectionHead.FindAllStringSubmatch(page, -1) {
		fmt.Fprintf(&list, `<a href="#%s">%s</a>`, m[1], m[2])
	}
	page = sectionHead.ReplaceAllString(page, `<section id="$1">`+"\n"+`<h2><a href="#$1">$2</a></h2>`)
	return strings.Replace(page, place, place+list.String(), 1)
}

// Fragment writes what the page of a report shows, without the page around it: a page
// that has Styles may contain it.
func Fragment(w io.Writer, r *result.Result) error {
	return render(w, page(), "report", newPageData(report.New(r)), "report")
}

// Styles is the style sheet of every page.
func Styles() string { return pageCSS }

// Script is what pages do for their readers: its furnish(root) gives what is below an element
// its buttons.
func Script() string { return pageJS }

// inline is the script of a page of its own.
func inline() string { return pageJS + "furnish(document);\n" }

// ScriptSource names that script in a content security policy, by its digest.
func ScriptSource() string {
	digest := sha256.Sum256([]byte(inline()))
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}

// pageData is what the template shows.
type pageData struct {
	*report.Model
	CostsWide  template.HTML
	CostsSmall template.HTML
	Band       bool // the plot of costs shades effects too small to matter
	Beyond     bool // it has effects that are beyond any ratio
	ShareBars  []figure.ShareBar
	Routes     []report.Drawing
	Throughput []figure.Figure
	RTT        []figure.Figure
	HopFigures []figure.Figure
	Pairs      []figure.Figure
	Clients    []figure.Clients
	Order      []figure.Figure
	Latency    []figure.Figure
	Loss       []figure.Figure
	Dashed     bool // some curves of Latency are from before a load
	Facts      []report.Pair
	Command    string
	Specs      []report.Pair
	Trials     []trialRow
	Text       string
}

func newPageData(m *report.Model) pageData {
	r := m.Run
	d := pageData{Model: m,
		CostsWide: figure.CostFigure(m, "costs-wide", figure.WideCosts()), CostsSmall: figure.CostFigure(m, "costs-narrow", figure.NarrowCosts()),
		ShareBars: figure.ShareBars(m), Routes: m.Drawings(),
		Throughput: figure.ThroughputFigures(m), RTT: figure.RttFigures(m), HopFigures: figure.HopFigures(m), Pairs: figure.PairFigures(m), Clients: figure.ClientFigures(m), Order: figure.OrderFigures(m), Latency: figure.LatencyFigures(m), Loss: figure.LossFigures(m),
		Facts: facts(m), Command: command(r), Specs: specs(m), Trials: trialRows(m), Text: typeset.Clean(r.Experiment.Text, true)}
	d.Dashed = slices.ContainsFunc(m.Tests, func(t report.Test) bool { return len(t.Descriptor().Latencies) > 1 })
	d.Band, d.Beyond = strings.Contains(string(d.CostsWide), `class="band"`), strings.Contains(string(d.CostsWide), ` cross"`)
	return d
}

// facts is the environment, with the seed and the format first.
func facts(m *report.Model) []report.Pair {
	r := m.Run
	out := []report.Pair{{Name: "seed", Value: fmt.Sprint(r.Seed)}}
	add := func(name, value string) {
		if value = typeset.Line(value); value != "" {
			out = append(out, report.Pair{Name: typeset.Line(name), Value: value})
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
		add(words.EnvironmentName(k), r.Environment[k])
	}
	add("result format", r.Format)
	return out
}

// command repeats the run.
func command(r *result.Result) string {
	words := make([]string, len(r.Command))
	for i, word := range r.Command {
		words[i] = printable.ShellWord(typeset.Line(word))
	}
	return strings.Join(words, " ")
}

// specs says how each test was done.
func specs(m *report.Model) []report.Pair {
	var out []report.Pair
	for _, t := range m.Tests {
		if t.Kind != "" {
			out = append(out, report.Pair{Name: t.Label, Value: typeset.Line(words.Spec(t.Spec))})
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
	Passed, Broken   bool
	Reasons          string // of failed gates and warnings
	Facts            string
	FingerprintTrack string
}

// trialRows lists every trial with its gate.
func trialRows(m *report.Model) []trialRow {
	out := make([]trialRow, 0, len(m.Run.Trials))
	byName := map[string]report.Test{}
	for _, t := range m.Tests {
		byName[t.Name] = t
	}
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
		row := trialRow{Order: t.Order, Block: t.Block, ID: typeset.Line(t.ID), Path: m.PathLabel(t.Path), Test: m.TestLabel(t.Test),
			Value: words.None, Passed: t.Gate.Passed, Broken: t.Gate.Broken, Reasons: typeset.Sentence(words.Findings(t.Gate, false)), Facts: strings.Join(typeset.Lines(t.Facts), " "), CPU: cpuText(t)}
		k := byName[t.Test]
		if v, ok := t.Metrics[k.Primary.Name]; ok && k.HasPrimary {
			row.Value = k.Column.Write(v)
		}
		if t.Warmup > 0 {
			row.Warmup = words.Unit(quantity.Number(float64(t.Warmup)*1e3, 0), "ms")
		}
		if t.Fingerprint != nil {
			row.FingerprintTrack = typeset.Line(words.Fingerprint(t.Fingerprint))
		}
		out = append(out, row)
	}
	return out
}

// cpuText is how busy both ends were, as far as they told: no end of a test is idle.
func cpuText(t *measurement.Trial) string {
	if t.Source.CPUBusy == 0 && t.Destination.CPUBusy == 0 {
		return ""
	}
	write := func(e measurement.End) string {
		if e.CPUBusy == 0 {
			return words.None
		}
		return fmt.Sprintf("%.0f", e.CPUBusy*100)
	}
	return write(t.Source) + " / " + write(t.Destination)
}

// publishedHTML defines the template of that table, which both pages use.
//
//go:embed published.html
var publishedHTML string
