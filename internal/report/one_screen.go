package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Brief is what one screen has room for in place of the model's own lists; what it
// counts, they tell.
type Brief struct {
	Verdicts []Verdict // of the primary costs, each with its caveats in few words
	Limits   []string  // what limits each path, alike ones together
	// ShortLimits are the same, those with advice by their first words.
	ShortLimits []string
	Counts      []string // what else there is, one line a kind, with its count
	Remarks     []string // those of trials, one line a kind, the most frequent first
	More        string   // what --verbose tells, without a full stop
}

// Brief arranges the model for one screen.
func (m *Model) Brief() Brief {
	b := Brief{Verdicts: slices.Clone(m.Verdicts)}
	b.Limits, b.ShortLimits = m.limits()
	for i := range b.Verdicts {
		b.Verdicts[i].Text = typeset.Sentence(m.names.BriefEffect(b.Verdicts[i].cost))
	}
	add := func(title, text string) {
		if text != "" {
			b.Counts = append(b.Counts, title+": "+text)
		}
	}
	add("Published and measured", words.Predictions(result.CountPublished(m.Run.Published)))
	add("Further metrics", m.furtherMetrics())
	add(m.ExcludedName(), m.excludedText())
	b.Remarks = m.remarks()
	var more []string
	for _, there := range []struct {
		n           int
		what, which string
	}{{len(m.Notes), "note", ""}, {len(m.Open), "question", " that the study left open"}, {len(m.Where), "line", " on where it was measured"}} {
		switch {
		case there.n == 1:
			more = append(more, "a "+there.what+there.which)
		case there.n > 1:
			more = append(more, quantity.Count(there.n, there.what)+there.which)
		}
	}
	b.More = "--verbose tells all of this"
	if len(more) > 0 {
		b.More += ", and " + words.List(more)
	}
	return b
}

// limits tells what limits each path, once for tests of a path that are limited alike, and the
// same in few words.
func (m *Model) limits() (full, short []string) {
	type limit struct {
		path, sentence string
		tests          []string
	}
	var all []*limit
	for _, s := range m.Shares {
		if s.Sentence == "" {
			continue
		}
		i := slices.IndexFunc(all, func(l *limit) bool { return l.path == s.Path && l.sentence == s.Sentence })
		if i < 0 {
			i = len(all)
			all = append(all, &limit{path: s.Path, sentence: s.Sentence})
		}
		all[i].tests = append(all[i].tests, s.Test)
	}
	for _, l := range all {
		of := l.path + ", " + words.List(l.tests) + ": "
		brief := l.sentence
		if strings.Contains(brief, "; ") { // without, what follows a colon is the answer
			brief = words.FirstWords(brief)
		}
		full, short = append(full, of+l.sentence), append(short, of+brief)
	}
	return full, short
}

// furtherMetrics names the metrics besides the primary ones that a path costs, and counts
// the others.
func (m *Model) furtherMetrics() string {
	var kinds []string
	by := map[string][]string{}
	others := 0
	for _, v := range m.Others {
		if v.Kind == result.NoCost || v.Kind == result.NotResolved || v.Kind == result.TooFewBlocks || v.Kind == result.Indicated {
			others++
			continue
		}
		size, _ := words.Size(v.cost)
		kind := v.Metric + " of " + v.Test
		if by[kind] == nil {
			kinds = append(kinds, kind)
		}
		by[kind] = append(by[kind], size+" for "+typeset.Line(m.names.Subject(v.cost)))
	}
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, kind+", "+words.List(by[kind]))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d without a difference that shows", others))
	}
	return strings.Join(parts, "; ")
}

// flowNumber is the flow that failed first, which differs between trials that failed alike.
var flowNumber = regexp.MustCompile(`^flow \d+ of \d+: `)

// excludedText counts the excluded and the broken trials by the first words of their reasons.
func (m *Model) excludedText() string {
	if len(m.Excluded) == 0 {
		return ""
	}
	counts := map[string]int{}
	var kinds []string
	for i := range m.Run.Trials {
		if m.Run.Trials[i].Gate.Passed {
			continue
		}
		kind := flowNumber.ReplaceAllString(typeset.Sentence(words.BriefFindings(m.Run.Trials[i].Gate)), "a flow: ")
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return counts[b] - counts[a] })
	text := fmt.Sprintf("%d of %s", len(m.Excluded), quantity.Count(len(m.Run.Trials), "trial"))
	if len(kinds) == 1 {
		return text + ": " + kinds[0]
	}
	text += fmt.Sprintf(": %d × %s; %d × %s", counts[kinds[0]], kinds[0], counts[kinds[1]], kinds[1])
	if more := len(m.Excluded) - counts[kinds[0]] - counts[kinds[1]]; more > 0 {
		text += fmt.Sprintf("; %d for other reasons", more)
	}
	return text
}

// remarks are the facts of all trials, by their first words.
func (m *Model) remarks() []string {
	return m.countFacts(func(*measurement.Trial) bool { return true }, words.FirstWords)
}
