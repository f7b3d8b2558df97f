// Package words is every text that hopbench makes of a result: numbers and codes
// in, sentences, labels and units out. Nothing below it writes for people, and
// what lays a report out words nothing itself, so that a metric, a cause or a
// verdict reads the same wherever it stands.
//
// One rounding rule: a number has three significant digits; an estimate with an
// interval has as many decimals as half the interval's width supports; a ratio
// is written as 3.71×, a fraction in percent. Numbers keep to their units by a
// no-break space.
//
// Each concept has one table: causes, verdicts, notes, findings of gates, judgements,
// kinds of test.
// Names of paths and tests come from files and are written as they are: whoever
// shows a text escapes it for its medium.
package words

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Names are what people call the paths and tests of a run, by their names in
// the experiment. What is not known is called by its name.
type Names struct {
	paths, tests map[string]string
	baseline     string // the run's, where it is known
	several      bool   // baselines: each effect is named with its own
}

// NamesOf takes the names from titles.
func NamesOf(paths, tests []result.Title) Names {
	n := Names{paths: map[string]string{}, tests: map[string]string{}}
	for _, p := range paths {
		n.paths[p.Name] = p.Title
	}
	for _, t := range tests {
		n.tests[t.Name] = t.Title
	}
	return n
}

// NamesIn are those of a run.
func NamesIn(r *result.Result) Names {
	n := NamesOf(result.PathTitles(r.Paths), result.TestTitles(r.Tests))
	n.baseline = r.Experiment.Baseline
	return n
}

// Telling are names that tell effects apart: with their baselines, where these differ.
func (n Names) Telling(effects []result.Effect) Names {
	baselines := map[string]bool{}
	for _, e := range effects {
		if e.Against == nil { // which is named with all of them
			baselines[e.Baseline] = true
		}
	}
	n.several = len(baselines) > 1
	return n
}

// Path is what a path is called.
func (n Names) Path(name string) string { return LeftToRight(cmp.Or(n.paths[name], name)) }

// Test is what a test is called.
func (n Names) Test(name string) string { return LeftToRight(cmp.Or(n.tests[name], name)) }

// measured names what an effect is measured by: a metric of a test.
func (n Names) measured(e result.Effect) string {
	return measurement.MetricOf(e.Metric).Label + ", " + n.Test(e.Test)
}

// LeftToRight ends a name whose last letters run from right to left with a mark (U+200E):
// without it a number that follows in a sentence would be shown before the name, and its
// sign behind it (UAX #9).
func LeftToRight(name string) string {
	back := false
	for _, r := range name {
		if unicode.IsLetter(r) {
			back = unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam)
		}
	}
	if back {
		return name + "\u200e"
	}
	return name
}

// Settings lists names with their values, by name.
func Settings(set map[string]string, between string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, name+between+set[name])
	}
	return out
}

// List writes "a, b and c".
func List(items []string) string { return list(items, "and") }

// list writes items with a word before the last.
func list(items []string, word string) string {
	switch last := len(items) - 1; last {
	case -1:
		return ""
	case 0:
		return items[0]
	default:
		return strings.Join(items[:last], ", ") + " " + word + " " + items[last]
	}
}
