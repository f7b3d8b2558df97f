package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

//go:embed index.html
var indexHTML string

var indexPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("index").Parse(indexHTML)).Parse(publishedHTML))
})

// Summarise fills in what an index shows of a run.
func Summarise(e *result.IndexEntry, r *result.Result) {
	m := newModel(r)
	e.Title, e.Scale = m.Title, r.Experiment.Scale
	e.Trials, e.Planned, e.Excluded = len(r.Trials), r.Planned, len(m.Excluded)
	e.Paths, e.Tests, e.Costs = result.PathTitles(r.Paths), result.TestTitles(r.Tests), nil
	for _, v := range m.Verdicts {
		e.Costs = append(e.Costs, v.cost)
	}
	e.Published = m.Run.Published
}

// indexData is what the pages of an index show.
type indexData struct {
	Title  string
	Status string
	Cards  []card
}

// card is one experiment of an index.
type card struct {
	Name, Title string
	State       string
	StateClass  string
	Report      string // relative address, empty without a report
	Reason      string
	Headline    string
	Status      string // trials and time
	Tally       string // of judged figures
	TallyClass  string
	Verdicts    []verdict
	Published   []figureRow
	ScaleName   string
}

// PublishedTable is that of the card.
func (c card) PublishedTable() publishedTable { return publishedTable{c.ScaleName, c.Published} }

func newIndexData(x *result.Index) indexData {
	d := indexData{Title: "Every experiment", Status: indexStatus(x)}
	for i := range x.Entries {
		d.Cards = append(d.Cards, newCard(&x.Entries[i]))
	}
	return d
}

// indexStatus is an index in one line.
func indexStatus(x *result.Index) string {
	var parts []string
	if !x.Started.IsZero() {
		parts = append(parts, words.Moment(x.Started)+", "+elapsedText(measurement.SecondsOf(x.Ended.Sub(x.Started))))
	}
	parts = append(parts, fmt.Sprintf("%d of %s done", x.Count(result.EntryDone), quantity.Count(len(x.Entries), "experiment")))
	if n := x.Count(result.EntryFailed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	if x.Count(result.EntryStopped)+x.Count(result.EntryNotRun) > 0 {
		parts = append(parts, "stopped early")
	}
	if x.Quick {
		parts = append(parts, "quick: few blocks, short trials")
	}
	if x.Full {
		parts = append(parts, "published durations")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", x.Seed)), " · ")
}

func newCard(e *result.IndexEntry) card {
	c := card{Name: line(e.Name), Title: line(e.Title), Reason: sentence(e.Reason)}
	names := words.NamesOf(e.Paths, e.Tests)
	if e.Trials > 0 {
		c.Headline = upperFirst(sentence(names.Headline(e.Costs, len(e.Paths), e.Trials)))
	}
	if c.Title == "" {
		c.Title = c.Name
	}
	switch e.State {
	case result.EntryDone:
		c.State, c.StateClass = "done", "v-fine"
	case result.EntryFailed:
		c.State, c.StateClass = "failed", "v-costs"
	case result.EntryStopped:
		c.State, c.StateClass = "stopped", "v-open"
	default:
		c.State, c.StateClass = "not run", "v-open"
	}
	if e.Trials > 0 {
		// A colon would make a scheme of what is before it.
		c.Report = strings.ReplaceAll(url.PathEscape(e.Folder), ":", "%3A") + "/report.html"
		c.Status = quantity.Count(e.Trials, "trial")
		if e.Planned > e.Trials {
			c.Status = fmt.Sprintf("%d of %d trials", e.Trials, e.Planned)
		}
		if e.Excluded > 0 {
			c.Status += fmt.Sprintf(", %d excluded", e.Excluded)
		}
		c.Status += ", "
	}
	if e.Elapsed > 0 {
		c.Status += elapsedText(e.Elapsed)
	}
	c.Status = strings.TrimSuffix(c.Status, ", ")
	if within, judged := result.Judged(e.Published); judged > 0 {
		c.Tally, c.TallyClass = fmt.Sprintf("%d of %s within tolerance", within, quantity.Count(judged, "published figure")), "v-fine"
		if within < judged {
			c.TallyClass = "v-costs"
		}
	}
	for _, cost := range e.Costs {
		c.Verdicts = append(c.Verdicts, verdict{Kind: cost.Verdict, Text: sentence(names.Effect(cost)), cost: cost})
	}
	for _, p := range e.Published {
		c.Published = append(c.Published, newFigureRow(p, columnOf(p)))
	}
	if e.Scale > 0 && e.Scale != 1 {
		c.ScaleName = words.Scale(e.Scale)
	}
	return c
}

// IndexHTML writes an index as one self-contained page that links to the
// reports below its folder.
func IndexHTML(w io.Writer, x *result.Index) error {
	var b strings.Builder
	d := struct {
		indexData
		CSS template.CSS
	}{newIndexData(x), template.CSS(pageCSS)}
	if err := indexPage().Execute(&b, d); err != nil {
		return fmt.Errorf("render HTML index: %w", err)
	}
	return flush(w, b.String(), "HTML index")
}

// IndexMarkdown writes an index as GitHub-flavoured Markdown.
func IndexMarkdown(w io.Writer, x *result.Index) error {
	d := newIndexData(x)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", d.Title, markdownText(d.Status))
	b.WriteString(markdownHead([]string{"experiment", "state", "what it says", "published", "took"}))
	for _, c := range d.Cards {
		says := c.Headline
		if c.Reason != "" {
			says = c.Reason
		}
		b.WriteString(markdownRow([]string{c.Name, c.State, says, c.Tally, c.Status}))
	}
	for _, c := range d.Cards {
		fmt.Fprintf(&b, "\n## %s\n\n", markdownText(c.Title))
		if c.Reason != "" {
			fmt.Fprintf(&b, "%s: %s\n\n", c.State, markdownText(c.Reason))
		}
		for _, v := range c.Verdicts {
			fmt.Fprintf(&b, "- %s\n", markdownText(v.Text))
		}
		if c.Report != "" {
			fmt.Fprintf(&b, "\n[Report](%s)\n", c.Report)
		}
		if len(c.Published) > 0 {
			b.WriteString("\n" + markdownHead(publishedColumns(c.measuredHead())))
			for _, p := range c.Published {
				b.WriteString(markdownRow(p.publishedCells()))
			}
		}
	}
	return flush(w, b.String(), "Markdown index")
}

func (c card) measuredHead() string {
	if c.ScaleName == "" {
		return "measured"
	}
	return "measured × " + c.ScaleName
}

// IndexTerminal writes an index for a terminal, an experiment a paragraph.
func IndexTerminal(w io.Writer, x *result.Index, o Options) error {
	if o.Width <= 0 {
		o.Width = 100
	}
	d := newIndexData(x)
	t := newTerminal(o)
	t.paragraph("", "", d.Status)
	for _, c := range d.Cards {
		t.heading(c.Name)
		state := c.State
		for _, s := range []string{c.Status, c.Tally} {
			if s != "" {
				state += ", " + s
			}
		}
		t.paragraph("  ", "", state)
		t.paragraph("  ", "", c.Reason)
		t.paragraph("  ", "", c.Headline)
	}
	return flush(w, t.b.String(), "index")
}

// IndexJSON writes the index itself, indented.
func IndexJSON(w io.Writer, x *result.Index) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(x); err != nil {
		return fmt.Errorf("write the index as JSON: %w", err)
	}
	return nil
}
