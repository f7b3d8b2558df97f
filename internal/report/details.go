package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// detail is what a test says in addition to its primary metric: paths as rows, a few
// further metrics as columns, medians over the trials that count.
type detail struct {
	Test    string
	Metrics []string
	Rows    []detailRow
}

// detailRow is one path; a value that is missing is a dash.
type detailRow struct {
	Path   string
	Values []string
}

// details lays them out. A metric that no trial brought has no column.
func (m *Model) details() []detail {
	var out []detail
	for _, t := range m.Tests {
		d := detail{Test: t.Label}
		for _, p := range m.Paths {
			d.Rows = append(d.Rows, detailRow{Path: p.Label})
		}
		for _, name := range detailMetrics(t.Spec) {
			metric, _ := measurement.MetricNamed(name)
			if values := m.detailColumn(t, metric); values != nil {
				d.Metrics = append(d.Metrics, metric.Label)
				for i := range d.Rows {
					d.Rows[i].Values = append(d.Rows[i].Values, values[i])
				}
			}
		}
		if len(d.Metrics) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// detailColumn is a metric's medians, path by path, nil when there is none.
func (m *Model) detailColumn(t Test, metric measurement.Metric) []string {
	var medians []float64
	out := make([]string, len(m.Paths))
	for _, p := range m.Paths {
		if c := m.cell(Key{p.Name, t.Name, metric.Name}); c != nil && c.N > 0 {
			medians = append(medians, c.Median)
		}
	}
	if len(medians) == 0 {
		return nil
	}
	column := words.NewColumn(metric.Unit, medians, nil)
	if metric.Unit == measurement.Fraction {
		column = column.Each()
	}
	for i, p := range m.Paths {
		out[i] = "—"
		if c := m.cell(Key{p.Name, t.Name, metric.Name}); c != nil && c.N > 0 {
			out[i] = column.Write(c.Median)
		}
	}
	return out
}

// maxSeen bounds how many sentences of a kind a report lists.
const maxSeen = 12

// seen is what a reader must know of the trials in addition to their figures: how
// searches for a rate went, what the hosts themselves lost, and the facts that
// the ends reported, each said once with the number of trials.
func (m *Model) seen() []string {
	var searches, drops []string
	for _, t := range m.Tests {
		for _, p := range m.Paths {
			trials := m.counted(p, t)
			if s := searchText(trials, t.Primary.Name); s != "" {
				searches = append(searches, fmt.Sprintf("%s, %s: %s.", p.Label, t.Label, s))
			}
			if s := dropsText(trials); s != "" {
				drops = append(drops, fmt.Sprintf("%s, %s: %s.", p.Label, t.Label, s))
			}
		}
	}
	return slices.Concat(bounded(searches), bounded(drops), bounded(m.factTexts()), m.readingsText())
}

// counted are the trials of a test on a path that count.
func (m *Model) counted(p Path, t Test) []*measurement.Trial {
	var out []*measurement.Trial
	for i := range m.Run.Trials {
		if trial := &m.Run.Trials[i]; trial.Path == p.Name && trial.Test == t.Name && trial.Gate.Passed {
			out = append(out, trial)
		}
	}
	return out
}

func bounded(list []string) []string {
	if more := len(list) - maxSeen; more > 0 {
		return append(list[:maxSeen:maxSeen], fmt.Sprintf("And %d more of the kind, in result.json.", more))
	}
	return list
}

// searchText tells the steps of the search whose result is the median one.
func searchText(trials []*measurement.Trial, metric string) string {
	var searched []*measurement.Trial
	for _, t := range trials {
		if len(t.LossSearch) > 0 {
			searched = append(searched, t)
		}
	}
	if len(searched) == 0 {
		return ""
	}
	slices.SortStableFunc(searched, func(a, b *measurement.Trial) int { return cmp.Compare(a.Metrics[metric], b.Metrics[metric]) })
	t := searched[(len(searched)-1)/2]
	return words.LossSearch(typeset.Line(t.ID), t.LossSearch)
}

// dropsText tells what the hosts themselves lost in all trials together, by end
// and place.
func dropsText(trials []*measurement.Trial) string {
	lost := map[string]float64{}
	var places []string
	add := func(end string, e measurement.End) {
		for _, d := range e.Drops {
			place := end + typeset.Line(d.Place)
			if _, known := lost[place]; !known {
				places = append(places, place)
			}
			lost[place] += d.Packets
		}
	}
	for _, t := range trials {
		add("source's ", t.Source)
		add("destination's ", t.Destination)
	}
	if len(places) == 0 {
		return ""
	}
	slices.SortStableFunc(places, func(a, b string) int { return cmp.Compare(lost[b], lost[a]) })
	if len(places) > maxSeen {
		places = places[:maxSeen]
	}
	for i, place := range places {
		places[i] = place + " " + words.Value(lost[place], measurement.Count)
	}
	return fmt.Sprintf("packets that the hosts themselves lost in %s: %s", quantity.Count(len(trials), "trial"), strings.Join(places, ", "))
}

// factTexts are the facts of all trials, the most frequent of each test first.
func (m *Model) factTexts() []string {
	type fact struct {
		text  string
		count int
	}
	var out []string
	for _, t := range m.Tests {
		var facts []*fact
		byText := map[string]*fact{}
		trials := 0
		for i := range m.Run.Trials {
			trial := &m.Run.Trials[i]
			if trial.Test != t.Name {
				continue
			}
			trials++
			for _, text := range slices.Compact(slices.Sorted(slices.Values(typeset.Lines(trial.Facts)))) {
				if byText[text] == nil {
					byText[text] = &fact{text: text}
					facts = append(facts, byText[text])
				}
				byText[text].count++
			}
		}
		slices.SortStableFunc(facts, func(a, b *fact) int { return b.count - a.count })
		for _, f := range facts {
			out = append(out, fmt.Sprintf("%s, %d of %s: %s", t.Label, f.count, quantity.Count(trials, "trial"), f.text))
		}
	}
	return out
}
