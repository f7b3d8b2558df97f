package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// Trials says how many trials there are, were planned, are excluded, and were broken by
// their paths, which count as the worst.
func Trials(done, planned, excluded, broken int) string {
	text := quantity.Count(done, "trial")
	if planned > done {
		text = fmt.Sprintf("%d of %d trials", done, planned)
	}
	if excluded > 0 {
		text += fmt.Sprintf(", %d excluded", excluded)
	}
	if broken > 0 {
		text += fmt.Sprintf(", %d broken", broken)
	}
	return text
}

// TrialsOf says it of a run.
func TrialsOf(r *result.Result) string {
	excluded, broken := r.NotPassed()
	return Trials(len(r.Trials), r.Planned, excluded, broken)
}

// BlocksToClaim says whether so many blocks can claim anything of the primary
// comparisons of an experiment, for which it takes the fewest.
func BlocksToClaim(blocks, fewest, comparisons int) string {
	of := quantity.Count(comparisons, "comparison")
	if blocks < fewest {
		return fmt.Sprintf("%s %s too few: with %s, no effect, however large, can be beyond chance below %d blocks; use at least %d",
			quantity.Count(blocks, "block"), agree(blocks, "is", "are"), of, fewest, fewest)
	}
	return fmt.Sprintf("%s; an effect needs at least %s to be beyond chance", of, quantity.Count(fewest, "block"))
}

// ChangesOfPath says how often a plan goes from one path to another, and how often one of
// two stages does, which is made where switching takes longer than slow.
func ChangesOfPath(changes, fewer int, slow time.Duration) string {
	return fmt.Sprintf("about %d changes of path; on testbeds where a change takes more than %v, each block runs all tests on a path before the next, with about %d changes", changes, slow, fewer)
}

// Span writes when something began and how long it took; nothing without a
// beginning.
func Span(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	text := Moment(from)
	if d := to.Sub(from); !to.IsZero() && d > 0 {
		text += ", " + Elapsed(d)
	}
	return text
}

// Elapsed writes how long something took.
func Elapsed(d time.Duration) string { return d.Round(time.Second).String() }

// Status is a run in one line.
func Status(r *result.Result) string {
	var parts []string
	if span := Span(r.Started, r.Ended); span != "" {
		parts = append(parts, span)
	}
	if r.Experiment.Blocks > 0 {
		parts = append(parts, Blocks(r.Experiment.Blocks, r.Experiment.TwoStage))
	}
	return strings.Join(append(parts, TrialsOf(r), fmt.Sprintf("seed %d", r.Seed)), " · ")
}

// Blocks says how many blocks a run has, and of what plan.
func Blocks(n int, twoStage bool) string {
	text := quantity.Count(n, "block")
	if twoStage {
		text += " in two stages"
	}
	return text
}

// onMachines says whether a kind of testbed is one of real machines.
func onMachines(kind string) bool { return kind != "" && kind != result.TestbedLab }

// Statement says what the figures of a run are and are not.
func Statement(r *result.Result) string {
	var parts []string
	scale, published := ScaledBy(r.Experiment.Scale), len(r.Experiment.Published) > 0
	switch {
	case scale != "" && published:
		parts = append(parts, fmt.Sprintf("This is a model of the published setting, at 1:%s: rates are multiplied by %s before they are compared with published ones; times are not scaled.", scale, scale))
	case scale != "":
		parts = append(parts, fmt.Sprintf("This experiment is scaled down, at 1:%s; times are not scaled.", scale))
	case published && !onMachines(r.Testbed.Kind):
		parts = append(parts, "This is a model of the published setting.")
	}
	pairs := 0
	for i := range r.Trials {
		pairs = max(pairs, len(r.Trials[i].Pairs))
	}
	if pairs > 1 {
		parts = append(parts, fmt.Sprintf("%d pairs of hosts run every test at the same time; a trial covers all of them.", pairs))
	}
	note, bed := strings.TrimSpace(r.Testbed.Note), strings.TrimSpace(r.Testbed.Kind)
	if bed == "" || onMachines(bed) {
		bed = "testbed"
	}
	if r.Testbed.Relative {
		note = fmt.Sprintf("Figures of this %s are relative (%s): compare paths with each other, not with other machines.", bed,
			cmp.Or(strings.TrimSuffix(note, "."), "they measure its own machine as much as the path"))
	}
	if note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, " ")
}

// Autocorrelated says why the readings inside trials are no repetitions: in so
// many of the trials their autocorrelation is beyond that of independent ones.
func Autocorrelated(beyond, trials int, median float64) string {
	return fmt.Sprintf("The readings inside a trial are not counted as repetitions: in %d of %s with enough readings, their lag-1 autocorrelation (median %s) is beyond that of independent readings.",
		beyond, quantity.Count(trials, "trial"), quantity.Signed(median, 2))
}

// maxSteps bounds how many steps of a search a sentence has.
const maxSteps = 16

// LossSearch tells the steps of a trial's search for the highest rate.
func LossSearch(trial string, search []measurement.LossStep) string {
	var steps []string
	for i, s := range search {
		if i == maxSteps {
			steps = append(steps, "…")
			break
		}
		steps = append(steps, Rate(s.OfferedBitsPerSecond)+" lost "+Loss(s.Loss, float64(s.Packets)))
	}
	return "the search in trial " + trial + " tried " + strings.Join(steps, ", ")
}

// Varied announces a test that is done again, so many times, to tell what limits it.
func Varied(v result.Variation, trials int) string {
	each := v.Test.Spec.ExpectedDuration()
	return fmt.Sprintf("nothing shows what limits %s on %s: it is repeated %s, %d times, which takes about %s",
		v.Test.Explains, v.Path, changed[v.Test.Intervention], trials, Time(each*measurement.Seconds(trials)))
}

// Rebuilt says that a testbed broke in the middle of a run, and the run went on.
func Rebuilt(onHosts bool, why error) string {
	again := "The lab was rebuilt"
	if onHosts {
		again = "The hosts were reached again"
	}
	return fmt.Sprintf("%s during the run: %v.", again, why)
}

// Resumed says that a run was gone on with.
func Resumed(kept, planned int) string {
	return fmt.Sprintf("The run ended early and was resumed after %d of %d trials.", kept, planned)
}

// mostNamed bounds how many machines a sentence names.
const mostNamed = 20

// Returned says which machines of a fleet went on over another connection.
func Returned(names []string) string {
	return fmt.Sprintf("The connection of %s to the broker ended during the run and was made anew; tests went on meanwhile: %s.", quantity.Count(len(names), "machine"), someOf(names))
}

// Stopped says which machines of a fleet ended what they did.
func Stopped(names []string) string {
	return fmt.Sprintf("%s stopped during the run, or could not be reached for too long: %s. Trials without them say so, or were done again.", quantity.Count(len(names), "machine"), someOf(names))
}

// someOf are the first of many names.
func someOf(names []string) string {
	named := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named
}

// NoResult says that a trial is done again because its ends brought back nothing, or too few
// pairs.
func NoResult(t *measurement.Trial) string {
	why := ""
	for _, f := range t.Gate.Findings {
		if f.Fatal && why == "" {
			why = strings.TrimSuffix(findings[f.Code](f), ".")
		}
	}
	return fmt.Sprintf("Attempt %d at trial %s is discarded, and the trial is repeated at the end of its block: %s.", max(t.Attempt, 1), t.ID, why)
}

// BlockAgain says that a block is done again from its first trial.
func BlockAgain(block, trials int) string {
	return fmt.Sprintf("block %d was interrupted and is repeated as a whole: %s %s discarded.", block, quantity.Count(trials, "trial"), agree(trials, "is", "are"))
}

// CopiedAgain says that the trials of a test are done again, since all are to be measured
// in one way.
func CopiedAgain(test string, trials int) string {
	return fmt.Sprintf("A sender of %s had to copy its payload in the middle of the run (the user's pipes were taken, fs.pipe-user-pages-soft): %s of it %s discarded and repeated, all with copies.",
		test, quantity.Count(trials, "trial"), agree(trials, "is", "are"))
}
