package report

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// Medians is a table of medians over the trials that count: rows of what Of says.
type Medians struct {
	Of      string // head of the rows' names
	Columns []string
	Rows    []medianRow
}

// medianRow is a row under its columns; a value that is missing is a dash.
type medianRow struct {
	Name   string
	Values []string
}

// detail is what a test says in addition to its primary metric: paths as rows, a few
// further metrics as columns.
type detail struct {
	Test string
	Medians
}

// details lays them out. A metric that no trial brought has no column.
func (m *Model) details() []detail {
	var out []detail
	for _, t := range m.Tests {
		d := detail{Test: t.Label, Medians: Medians{Of: "path"}}
		for _, p := range m.Paths {
			d.Rows = append(d.Rows, medianRow{Name: p.Label})
		}
		for _, name := range t.details() {
			metric, _ := measurement.MetricNamed(name)
			if values := m.detailColumn(t, metric); values != nil {
				d.Columns = append(d.Columns, metric.Label)
				for i := range d.Rows {
					d.Rows[i].Values = append(d.Rows[i].Values, values[i])
				}
			}
		}
		if len(d.Columns) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// detailColumn is a metric's medians, path by path, with the bounds of their errors where it
// has such; nil when there is none.
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
		out[i] = words.None
		if c := m.cell(Key{p.Name, t.Name, metric.Name}); c != nil && c.N > 0 {
			out[i] = column.Write(c.Median)
			if bound := m.cell(Key{p.Name, t.Name, metric.BoundedBy}); bound != nil && bound.N > 0 {
				out[i] += " ± " + words.Value(bound.Median, metric.Unit)
			}
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
	var searches []string
	var lost lostPackets
	for _, t := range m.Tests {
		for _, p := range m.Paths {
			if s := searchText(m.Counted(p, t), t.Primary.Name); s != "" {
				searches = append(searches, fmt.Sprintf("%s, %s: %s.", p.Label, t.Label, s))
			}
		}
	}
	for _, p := range m.Paths {
		for _, t := range m.Tests {
			lost.add(p.Label, t.Label, m.Counted(p, t))
		}
	}
	return slices.Concat(bounded(searches), bounded(lost.texts()), bounded(m.factTexts()), m.readingsText())
}

// Trials are those of a test on a path.
func (m *Model) Trials(p Path, t Test) []*measurement.Trial {
	var out []*measurement.Trial
	for i := range m.Run.Trials {
		if trial := &m.Run.Trials[i]; trial.Path == p.Name && trial.Test == t.Name {
			out = append(out, trial)
		}
	}
	return out
}

// Counted are those that count.
func (m *Model) Counted(p Path, t Test) []*measurement.Trial {
	return slices.DeleteFunc(m.Trials(p, t), func(trial *measurement.Trial) bool { return !trial.Gate.Passed })
}

func bounded(list []string) []string {
	if more := len(list) - maxSeen; more > 0 {
		return append(list[:maxSeen:maxSeen], fmt.Sprintf("And %d more of the kind, in result.json.", more))
	}
	return list
}

// searchText tells the steps of the search whose result is the median one.
func searchText(trials []*measurement.Trial, metric string) string {
	t := MedianOf(slices.DeleteFunc(trials, func(t *measurement.Trial) bool { return len(t.LossSearch) == 0 }), metric)
	if t == nil {
		return ""
	}
	return words.LossSearch(typeset.Line(t.ID), t.LossSearch)
}

// lostPackets are what the hosts themselves lost, of the cells that lost it in the same
// places together.
type lostPackets []*lostThere

type lostThere struct {
	places  []string
	packets map[string]float64 // by place
	trials  int
	paths   []string
	tests   map[string][]string // by path
}

// add counts the trials of a test on a path.
func (l *lostPackets) add(path, test string, trials []*measurement.Trial) {
	packets := map[string]float64{}
	for _, t := range trials {
		for _, d := range measurement.LocalDrops(t.Source, t.Destination) {
			packets[typeset.Line(words.DropPlace(d))] += d.Packets
		}
	}
	if len(packets) == 0 {
		return
	}
	places := slices.Sorted(maps.Keys(packets))
	i := slices.IndexFunc(*l, func(other *lostThere) bool { return slices.Equal(other.places, places) })
	if i < 0 {
		i = len(*l)
		*l = append(*l, &lostThere{places: places, packets: map[string]float64{}, tests: map[string][]string{}})
	}
	there := (*l)[i]
	for place, n := range packets {
		there.packets[place] += n
	}
	there.trials += len(trials)
	if there.tests[path] == nil {
		there.paths = append(there.paths, path)
	}
	there.tests[path] = append(there.tests[path], test)
}

// texts tells it by end and place, the most packets first, and of which cells.
func (l lostPackets) texts() []string {
	var out []string
	for _, there := range l {
		cells := make([]string, len(there.paths))
		for i, path := range there.paths {
			cells[i] = path + ", " + words.List(there.tests[path])
		}
		slices.SortStableFunc(there.places, func(a, b string) int { return cmp.Compare(there.packets[b], there.packets[a]) })
		var places []string
		for _, place := range there.places[:min(len(there.places), maxSeen)] {
			places = append(places, place+" "+words.Value(there.packets[place], measurement.Count))
		}
		out = append(out, fmt.Sprintf("%s: packets that the hosts themselves lost in %s: %s.", strings.Join(cells, "; "), quantity.Count(there.trials, "trial"), strings.Join(places, ", ")))
	}
	return out
}

// numbers are what differs between facts of the same kind, and times, sizes and rates with
// their units; not those in names, such as r1.
var numbers = regexp.MustCompile(`\b([0-9]+([.,][0-9]+)*(e[+-][0-9]+)?([ \x{a0}]?([kMGT]?(B|bit/s)|ns|µs|ms|s|m|h))?)+\b`)

// plurals are what numbers are of: 1 request, 2 requests.
var plurals = regexp.MustCompile(`(\b0[ \x{a0}]\pL+)s\b`)

// factTexts are the facts of all trials, the most frequent of each test first.
func (m *Model) factTexts() []string {
	var out []string
	for _, t := range m.Tests {
		of := func(trial *measurement.Trial) bool { return trial.Test == t.Name }
		for _, fact := range m.countFacts(of, func(text string) string { return text }) {
			out = append(out, t.Label+", "+fact)
		}
	}
	return out
}

// countFacts says in how many of the trials that are asked for there is which fact, as cut
// shortens it, the most frequent first. Those that differ in their numbers alone are one, in
// the words that most trials have.
func (m *Model) countFacts(of func(*measurement.Trial) bool, cut func(string) string) []string {
	type kind struct {
		trials int
		last   *measurement.Trial // of them
		texts  map[string]int     // in how many trials
	}
	var kinds []*kind
	ofText := map[string]*kind{}
	trials := 0
	for i := range m.Run.Trials {
		trial := &m.Run.Trials[i]
		if !of(trial) {
			continue
		}
		trials++
		for _, text := range slices.Compact(slices.Sorted(slices.Values(typeset.Lines(trial.Facts)))) {
			text = cut(text)
			like := plurals.ReplaceAllString(numbers.ReplaceAllString(text, "0"), "$1")
			k := ofText[like]
			if k == nil {
				k = &kind{texts: map[string]int{}}
				ofText[like] = k
				kinds = append(kinds, k)
			}
			k.texts[text]++
			if k.last != trial {
				k.trials, k.last = k.trials+1, trial
			}
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return b.trials - a.trials })
	var out []string
	for _, k := range kinds {
		texts := slices.SortedFunc(maps.Keys(k.texts), func(a, b string) int {
			return cmp.Or(k.texts[b]-k.texts[a], strings.Compare(a, b))
		})
		such := ""
		if len(texts) > 1 {
			such = ", such as"
		}
		out = append(out, fmt.Sprintf("%d of %s%s: %s", k.trials, quantity.Count(trials, "trial"), such, texts[0]))
	}
	return out
}
