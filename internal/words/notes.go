package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// maxNotes bounds how many notes of a code are written out.
const maxNotes = 5

// note is how notes of a code are written.
type note struct {
	say func(n Names, x result.Note) string
	// more stands for those beyond maxNotes; without it all are written.
	more func(count int) string
	// above says that a reader must know it before the verdicts.
	above bool
}

var notes = map[result.NoteCode]note{
	result.NoteText: {say: func(_ Names, x result.Note) string { return x.Text }},
	result.NoteNotFinite: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s of this run %s left out.", quantity.Count(x.Count, "value"), agree(x.Count, "was not a finite number and is", "were not finite numbers and are"))
	}},
	result.NoteExcludedTrials: {say: func(_ Names, x result.Note) string {
		return excluded(x, "excluded by a gate")
	}},
	result.NoteBrokenTrials: {say: func(_ Names, x result.Note) string {
		return excluded(x, "broken by their paths; each counts as worse than any value")
	}},
	result.NoteRepeatedTrials: {say: func(_ Names, x result.Note) string {
		return quantity.Count(x.Count, "trial") + " repeated a test on the same path in the same block; only the first of each counts."
	}},
	result.NoteForeignTrials: {say: func(_ Names, x result.Note) string {
		return quantity.Count(x.Count, "trial") + " of a path or a test that is not in this experiment; ignored."
	}},
	result.NoteNoBaseline: {say: func(Names, result.Note) string { return "No costs: no path is marked as the baseline." }},
	result.NoteTwoBaselines: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("No costs: both %s and %s are marked as the baseline.", x.Baseline, x.Path)
	}},
	result.NoteLostBlocks: {
		say: func(n Names, x result.Note) string {
			subject, on := n.Path(x.Path), n.Path(x.Path)+" or "+n.Path(x.Baseline)
			if x.Against != nil {
				subject, on = n.ofNote(x), "one of these paths"
			}
			return fmt.Sprintf("%s, %s: %d of %s %s %s on %s and %s not count.", subject, n.Test(x.Test), x.Count, quantity.Count(x.Of, "block"), agree(x.Count, "lacks", "lack"),
				measurement.MetricOf(x.Metric).Label, on, agree(x.Count, "does", "do"))
		},
		more: func(count int) string {
			return quantity.Count(count, "more comparison") + " lost blocks in the same way."
		},
	},
	result.NoteTooFewBlocks: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s too few blocks to show any effect, however large: with %s in the report, at least %d blocks are needed.",
			comparisonsHave(x.Count), quantity.Count(x.Of, "primary comparison"), x.Needed)
	}},
	result.NoteTooFewTrials: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s too few trials to show any change, however large: with %s, at least %d trials in each run are needed.",
			comparisonsHave(x.Count), quantity.Count(x.Of, "primary comparison"), x.Needed)
	}},
	result.NoteDrift: {
		say:  Names.drift,
		more: func(count int) string { return "Drift: and " + quantity.Count(count, "comparison") + " more." },
	},
	result.NoteDriftTested: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("Drift was tested on %s at the %s level by two tests each.", quantity.Count(x.Count, "comparison"), Percent(x.Level))
	}},
	result.NoteResumedDiffers: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("After %s the run continued (%s) with a different %s: %s, previously %s.", quantity.Count(x.Count, "trial"), Moment(x.Started),
			x.Name, cmp.Or(x.Is, "unknown"), cmp.Or(x.Was, "unknown"))
	}},
	result.NoteRunsDiffer: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s and %s differ in their %s: %s and %s.", x.ReferenceRun, x.Run, x.Name, cmp.Or(x.Was, "unknown"), cmp.Or(x.Is, "unknown"))
	}},
	result.NoteScalesDiffer: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s is at 1:%s and %s at 1:%s: costs are compared as they are, levels multiplied by their scales.", x.ReferenceRun, Scale(x.ReferenceScale), x.Run, Scale(x.Scale))
	}},
	result.NoteTestsDiffer: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("Test %s has different settings in %s and %s.", x.Test, x.ReferenceRun, x.Run)
	}},
	result.NotePathsDiffer: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("Path %s does not have the same hops in %s and %s.", x.Path, x.ReferenceRun, x.Run)
	}},
	result.NoteRelativeMachines: {say: func(Names, result.Note) string {
		return "Figures of such a testbed measure its machine as much as the path. Between two machines you can compare only costs (the ratio of a path to the baseline), not levels."
	}},
	result.NoteNoPath: {say: func(_ Names, x result.Note) string {
		if x.Baseline != "" {
			return fmt.Sprintf("%s does not compare path %q with %q as the other run does.", x.Run, x.Path, x.Baseline)
		}
		return fmt.Sprintf("%s has no path %q.", x.Run, x.Path)
	}},
	result.NoteNoTest: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("%s has no test %q of the same kind.", x.Run, x.Test)
	}},
	result.NoteNothingToCompare: {say: func(n Names, x result.Note) string {
		what, why := "", "no trial of it counts"
		if x.Metric != "" {
			what, why = measurement.MetricOf(x.Metric).Label+" is ", "no trial that counts has it"
		}
		if e := effectOf(x); e.Baseline != "" {
			why = "no block has a counted value on " + n.compared(e)
		}
		return fmt.Sprintf("%s, %s: %snot compared, since in one of the runs (%s and %s) %s.", n.ofNote(x), n.Test(x.Test), what, x.ReferenceRun, x.Run, why)
	}},
	result.NoteOldFormat: {say: func(n Names, x result.Note) string {
		why := "that format counts the goodput of UDP differently"
		if x.Count > 0 {
			why = quantity.Count(x.Count, "trial") + " did not count, and that format does not record which of them the path broke"
		}
		return fmt.Sprintf("%s, %s: not compared between %s and %s. One of them is of format 1: %s.", n.Path(x.Path), n.Test(x.Test), x.ReferenceRun, x.Run, why)
	}},
	result.NoteInterim: {above: true, say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("Interim: the run has %d of %s so far. Its p-values and intervals assume that the number of blocks was fixed beforehand: finish the run with hopbench run --resume before you conclude anything.",
			x.Count, quantity.Count(x.Of, "block"))
	}},
	result.NoteCutShort: {above: true, say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("The comparison was stopped after %d of %s. Its p-values and intervals assume that the number of blocks was fixed beforehand: repeat it before you conclude anything.",
			x.Count, quantity.Count(x.Of, "block"))
	}},
	result.NoteDamaged: {above: true, say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("run.sqlite is damaged: %s %s missing here, as %s cannot be read. Use a copy of the file if there is one.",
			quantity.Count(x.Count, "trial"), agree(x.Count, "is", "are"), agree(x.Count, "it", "they"))
	}},
	result.NoteSameHops: {above: true, say: func(n Names, x result.Note) string {
		return fmt.Sprintf("Traces of %s and %s show the same hops. Different paths are not proven: no cost may mean that there was no difference.", n.Path(x.Baseline), n.Path(x.Path))
	}},
	result.NoteRepeatedBlock: {say: func(_ Names, x result.Note) string {
		return fmt.Sprintf("The run was interrupted in block %d, which was repeated as a whole; %s from before %s, but %s kept.",
			x.Block, quantity.Count(x.Count, "trial"), agree(x.Count, "does not count", "do not count"), agree(x.Count, "is", "are"))
	}},
	result.NoteFullCPUs: {above: true, say: fullCPUs},
	result.NoteRejudged: {above: true, say: func(_ Names, x result.Note) string {
		metric, margin := measurement.MetricOf(x.Metric), measurement.Margin{}
		if x.Margin != nil {
			margin = *x.Margin
		}
		return fmt.Sprintf("%s was judged again: %s is what matters according to the report's options, not those of the run.", metric.Label, cmp.Or(Margin(metric, margin), "nothing"))
	}},
	result.NoteReadings: {say: readings},
	result.NoteTunnelMeetsRules: {say: func(n Names, x result.Note) string {
		return fmt.Sprintf("%s: firewall %[3]s compares every packet of the VXLAN tunnel with all %[2]s, not only the first of each flow: the tunnel's two directions have different source ports, so connection tracking never sees an answer.",
			n.Path(x.Path), quantity.Count(x.Count, "rule"), x.Name)
	}},
}

// ofOneRun are the codes that speak of what is wrong in a run, not of how it
// differs from another.
func ofOneRun(x result.Note) bool {
	return x.Run != "" && x.ReferenceRun == "" && x.Code != result.NoteNoPath && x.Code != result.NoteNoTest
}

// Note writes a note as a sentence or a few.
func (n Names) Note(x result.Note) string {
	row, known := notes[x.Code]
	if !known {
		return string(x.Code) // of a newer hopbench
	}
	text := row.say(n, x)
	if ofOneRun(x) {
		text = x.Run + ": " + text
	}
	return text
}

// Notes writes a list of them, many of a kind in short.
func (n Names) Notes(list []result.Note) []string {
	total, written := map[result.NoteCode]int{}, map[result.NoteCode]int{}
	for _, x := range list {
		total[x.Code]++
	}
	var out []string
	for _, x := range list {
		written[x.Code]++
		more := notes[x.Code].more
		switch i := written[x.Code]; {
		case more == nil || i <= maxNotes:
			out = append(out, n.Note(x))
		case i == total[x.Code]:
			out = append(out, more(i-maxNotes))
		}
	}
	return out
}

// BeforeVerdicts are the notes that belong above the verdicts, and the others.
func BeforeVerdicts(list []result.Note) (above, others []result.Note) {
	for _, x := range list {
		if notes[x.Code].above {
			above = append(above, x)
		} else {
			others = append(others, x)
		}
	}
	return above, others
}

// Moment writes when something was.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func comparisonsHave(n int) string {
	return quantity.Count(n, "primary comparison") + " " + agree(n, "has", "have")
}

// excluded says of how many trials that is so, and why.
func excluded(x result.Note, what string) string {
	names := slices.Collect(maps.Keys(x.ByGate))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(x.ByGate[b], x.ByGate[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", cmp.Or(name, "unnamed gate"), x.ByGate[name])
	}
	var reasons []string
	for _, f := range x.Findings {
		reason := noReason
		if f.Finding != nil {
			reason = Finding(*f.Finding)
		}
		reasons = append(reasons, f.Trial+": "+reason)
	}
	if more := x.Count - len(x.Findings); more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %s %s (%s). %s.", x.Count, quantity.Count(x.Of, "trial"), what, strings.Join(names, ", "), strings.Join(reasons, "; "))
}

// effectOf is the effect that a note is of, and ofNote its name.
func effectOf(x result.Note) result.Effect {
	return result.Effect{Path: x.Path, Baseline: x.Baseline, Against: x.Against}
}

func (n Names) ofNote(x result.Note) string { return n.Subject(effectOf(x)) }

func (n Names) drift(x result.Note) string {
	d := x.Drift
	if d == nil {
		d = &result.Drift{}
	}
	var why []string
	if d.P != nil && d.Rho != nil && *d.P < x.Level {
		why = append(why, fmt.Sprintf("Spearman's ρ with the block's index is %s, %s", quantity.Signed(*d.Rho, 2), P(*d.P)))
	}
	if d.HalvesP < x.Level {
		why = append(why, "the two halves differ, "+P(d.HalvesP))
	}
	metric := measurement.MetricOf(x.Metric)
	return fmt.Sprintf("Drift: the effect of %s on %s, %s changed during the run, from %s in the first half of the blocks to %s in the second (%s). A single figure for the whole run hides this.",
		n.ofNote(x), metric.Label, n.Test(x.Test), changeOf(d.FirstRatio, d.FirstDifference, metric.Unit), changeOf(d.SecondRatio, d.SecondDifference, metric.Unit), strings.Join(why, "; "))
}

// fullCPUs says what full CPUs mean for the figures.
func fullCPUs(_ Names, x result.Note) string {
	text := fmt.Sprintf("The CPUs of an end were full in %d of %s", x.Count, quantity.Count(x.Of, "trial"))
	switch stolen := fmt.Sprintf("a hypervisor took up to %s of their time", Percent(x.Stolen)); {
	case x.Count == 0:
		text = "In some trials " + stolen
	case x.Stolen > 0:
		text += ", and " + stolen
	}
	return text + ": these trials measure the machine as much as the path, and hide smaller costs. Use lower rates, fewer flows or more CPUs."
}

// readings says why the readings inside one run are no repetitions.
func readings(_ Names, x result.Note) string {
	what := cmp.Or(x.Name, "this row")
	text := fmt.Sprintf("The %d readings of %s are one run, so one trial: they give no interval, no p and no difference.", x.Count, what)
	if x.Autocorrelation == nil {
		return text
	}
	r, limit := *x.Autocorrelation, quantity.Number(x.Level, 2)
	text += " Their lag-1 autocorrelation is " + quantity.Signed(r, 2)
	if r > x.Level || r < -x.Level {
		return text + ", beyond the ±" + limit + " of independent readings: each depends on the one before it."
	}
	return text + ", within the ±" + limit + " of independent readings, but this does not make them separate runs."
}
