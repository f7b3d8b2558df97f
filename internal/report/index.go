package report

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Summarise fills in what an index shows of a run.
func Summarise(e *result.IndexEntry, r *result.Result) {
	m := New(r)
	e.Title, e.Scale = m.Title, r.Experiment.Scale
	e.Trials, e.Planned = len(r.Trials), r.Planned
	e.Excluded, e.Broken = r.NotPassed()
	e.Paths, e.Tests, e.Costs = result.PathTitles(r.Paths), result.TestTitles(r.Tests), nil
	for _, v := range m.Verdicts {
		e.Costs = append(e.Costs, v.cost)
	}
	e.Published = m.Run.Published
}

// Index is what the pages of an index show.
type Index struct {
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
	Tally       string // of predictions
	TallyClass  string
	Verdicts    []Verdict
	PublishedTable
}

func NewIndex(x *result.Index) Index {
	d := Index{Title: "Every experiment", Status: indexStatus(x)}
	for i := range x.Entries {
		d.Cards = append(d.Cards, newCard(&x.Entries[i]))
	}
	return d
}

// indexStatus is an index in one line.
func indexStatus(x *result.Index) string {
	var parts []string
	if span := words.Span(x.Started, x.Ended); span != "" {
		parts = append(parts, span)
	}
	parts = append(parts, fmt.Sprintf("%d of %s done", x.Count(result.EntryDone), quantity.Count(len(x.Entries), "experiment")))
	if n := x.Count(result.EntryFailed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	if x.Count(result.EntryStopped)+x.Count(result.EntryNotRun) > 0 {
		parts = append(parts, "stopped early")
	}
	var published []result.PublishedComparison
	for _, e := range x.Entries {
		published = append(published, e.Published...)
	}
	if text := words.Predictions(result.CountPublished(published)); text != "" {
		parts = append(parts, text)
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
	c := card{Name: typeset.Line(e.Name), Title: cmp.Or(typeset.Line(e.Title), typeset.Line(e.Name)), Reason: typeset.Sentence(e.Reason)}
	names := words.NamesOf(e.Paths, e.Tests).Telling(e.Costs)
	if e.Trials > 0 {
		c.Headline = typeset.UpperFirst(typeset.Sentence(names.Headline(e.Costs, len(e.Paths), e.Trials)))
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
		c.Status = words.Trials(e.Trials, e.Planned, e.Excluded, e.Broken) + ", "
	}
	if e.Elapsed > 0 {
		c.Status += words.Elapsed(e.Elapsed.Duration())
	}
	c.Status = strings.TrimSuffix(c.Status, ", ")
	count := result.CountPublished(e.Published)
	switch c.Tally = words.Predictions(count); {
	case count.Predictions() == 0 || count.Undecided > 0 && count.Outside == 0:
		c.TallyClass = "v-open"
	case count.Outside > 0:
		c.TallyClass = "v-costs"
	default:
		c.TallyClass = "v-fine"
	}
	for _, cost := range e.Costs {
		c.Verdicts = append(c.Verdicts, newVerdict(cost, names))
	}
	c.PublishedTable = publishedTable(e.Published, e.Scale)
	return c
}
