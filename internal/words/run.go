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

// Trials says how many trials there are, were planned and are excluded. stopped
// says that the user ended the run before its last trial.
func Trials(done, planned, excluded int, stopped bool) string {
	text := quantity.Count(done, "trial")
	if planned > done {
		text = fmt.Sprintf("%d of %d trials", done, planned)
		if stopped {
			text += " (stopped early)"
		}
	}
	if excluded > 0 {
		text += fmt.Sprintf(", %d excluded", excluded)
	}
	return text
}

// TrialsOf says it of a run.
func TrialsOf(r *result.Result) string {
	excluded := 0
	for i := range r.Trials {
		if !r.Trials[i].Gate.Passed {
			excluded++
		}
	}
	return Trials(len(r.Trials), r.Planned, excluded, !r.Complete)
}

// BlocksToClaim says whether so many blocks can claim anything of the primary
// comparisons of an experiment, for which it takes the fewest.
func BlocksToClaim(blocks, fewest, comparisons int) string {
	of := quantity.Count(comparisons, "comparison")
	if blocks < fewest {
		return fmt.Sprintf("%s too few: with %s, no effect, however large, can be beyond chance below %d blocks; use at least %d",
			are(blocks, "block"), of, fewest, fewest)
	}
	return fmt.Sprintf("%s; an effect needs at least %s to be beyond chance", of, quantity.Count(fewest, "block"))
}

// ChangesOfPath says how often a plan goes from one path to another, and how often one of
// two stages does, which is made where switching takes longer than slow.
func ChangesOfPath(changes, fewer int, slow time.Duration) string {
	return fmt.Sprintf("about %d changes of path; on testbeds where a change takes more than %v, each block runs all tests on a path before the next, with about %d changes", changes, slow, fewer)
}

func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return quantity.Count(n, noun) + " are"
}

// LoadedMachine warns of a machine on which so many tasks run beside hopbench, and of
// whose CPU time a hypervisor takes a share; empty where both are little.
func LoadedMachine(runnable, cpus int, stolen float64) string {
	others := OthersLoad(runnable, cpus, stolen)
	if others == "" {
		return ""
	}
	return "This machine was busy when the run began: " + others + ". This takes CPU time from the measurement and adds noise; stop other programs on this machine."
}

// OthersLoad is who else uses so many CPUs, of which a hypervisor took a part; empty where that
// is too little to matter.
func OthersLoad(runnable, cpus int, stolen float64) string {
	const much, muchStolen = 0.25, 0.05 // of the CPUs
	var why []string
	if float64(runnable) > much*float64(cpus) {
		why = append(why, fmt.Sprintf("%s other than hopbench ran or waited on %s", quantity.Count(runnable, "task"), quantity.Count(cpus, "CPU")))
	}
	if stolen > muchStolen {
		why = append(why, fmt.Sprintf("a hypervisor takes %s of its CPU time", Percent(stolen)))
	}
	return strings.Join(why, ", and ")
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
func onMachines(kind string) bool { return kind == result.TestbedHosts || kind == result.TestbedFleet }

// Statement says what the figures of a run are and are not.
func Statement(r *result.Result) string {
	var parts []string
	scale, published := r.Experiment.Scale, len(r.Experiment.Published) > 0
	switch scaled := scale > 0 && scale != 1; {
	case scaled && published:
		parts = append(parts, fmt.Sprintf("This is a model of the published setting, at 1:%s: rates are multiplied by %s before they are compared with published ones; times are not scaled.", Scale(scale), Scale(scale)))
	case scaled:
		parts = append(parts, fmt.Sprintf("This experiment is scaled down, at 1:%s; times are not scaled.", Scale(scale)))
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

// Fingerprint is what a trial saw of its path, in a line.
func Fingerprint(f *measurement.Fingerprint) string {
	var parts []string
	if len(f.Hops) > 0 {
		parts = append(parts, traced(f.Hops))
		if f.TracedBack {
			parts[0] += " on the reverse path"
		}
	}
	if len(f.OuterHops) > 0 {
		if len(parts) > 0 {
			parts[0] += " inside the tunnel"
		}
		parts = append(parts, traced(f.OuterHops)+" below the tunnel")
	}
	for _, x := range []struct {
		format string
		value  int64
	}{{"TTL %d on arrival", int64(f.ReceivedTTL)}, {"path MTU %d" + NBSP + "B", f.PathMTU}, {"MSS %d" + NBSP + "B", f.MSS}} {
		if x.value > 0 {
			parts = append(parts, fmt.Sprintf(x.format, x.value))
		}
	}
	if f.Switched {
		parts = append(parts, "switched in place, "+Time(f.Settle)+" to settle")
	}
	if w := f.Switch; w != nil {
		for _, name := range slices.Sorted(maps.Keys(w.Set)) {
			parts = append(parts, name+" at "+w.Set[name])
		}
		parts = append(parts, "proof "+w.Proof+" in "+Time(w.Took))
	}
	if !f.Matches && f.Why != nil {
		parts = append(parts, "not the planned path: "+difference(*f.Why))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// traced is what a trace saw, hop by hop; * is a silent one.
func traced(hops []measurement.TraceHop) string {
	addresses := make([]string, len(hops))
	for i, h := range hops {
		addresses[i] = cmp.Or(h.Address, "*")
	}
	return strings.Join(addresses, " → ")
}

// HopCheck is how much more a hop counted in one direction than the receivers
// confirmed.
type HopCheck struct {
	Hop         string
	Reverse     bool
	Differences []float64 // trial by trial, as a fraction of what was confirmed
	// Apart is in how many trials that is more than what counts as agreement, and
	// Queued in how many of those a queue that grew or shrank explains it.
	Apart, Queued int
	// Within is what counts as agreement, as a fraction, if that is more than of other hops:
	// Grain is how far apart the moments are at which this one's source counts, in seconds,
	// and TooShort how many trials were not compared because of it.
	Within, Grain float64
	TooShort      int
}

// HopAgreement says it in sentences: one for all hops that agree in a direction
// within the fraction, one for each that does not.
func HopAgreement(checks []HopCheck, within float64) []string {
	var out []string
	for _, reverse := range []bool{false, true} {
		direction := "Towards the destination"
		if reverse {
			direction = "Towards the source"
		}
		var agreeing []string
		var all []float64
		trials := 0
		for _, c := range checks {
			if c.Reverse != reverse {
				continue
			}
			if c.TooShort > 0 {
				out = append(out, fmt.Sprintf("%s, the count of %s is not compared with what the receivers confirmed in %s: its source counts every %s, and the measured time is less than three times that.",
					direction, c.Hop, quantity.Count(c.TooShort, "trial"), Time(measurement.Seconds(c.Grain))))
			}
			switch n, within := len(c.Differences), max(c.Within, within); {
			case n == 0:
			case c.Apart > 0:
				out = append(out, fmt.Sprintf("%s, the count of %s does not agree with what the receivers confirmed: in %d of %s it differs by more than %s (%s)%s.",
					direction, c.Hop, c.Apart, quantity.Count(n, "trial"), Percent(within), signedRange(c.Differences), queueReason(c)))
			case c.Grain > 0:
				out = append(out, fmt.Sprintf("%s, the count of %s agrees with what the receivers confirmed, within %s in each of %s (%s): its source counts every %s, which limits the precision.",
					direction, c.Hop, Percent(within), quantity.Count(n, "trial"), signedRange(c.Differences), Time(measurement.Seconds(c.Grain))))
			default:
				agreeing, all, trials = append(agreeing, c.Hop), append(all, c.Differences...), max(trials, n)
			}
		}
		if len(agreeing) > 0 {
			out = append(out, fmt.Sprintf("%s, the count of %s agrees with what the receivers confirmed, within %s in each of %s (%s).",
				direction, List(agreeing), Percent(within), quantity.Count(trials, "trial"), signedRange(all)))
		}
	}
	return out
}

// queueReason says in how many of the trials in which a hop does not agree the
// queues may be why.
func queueReason(c HopCheck) string {
	const reason = "the senders' data in flight changed by as much during the window: it waits in a queue after or before the hop"
	switch c.Queued {
	case 0:
		return ""
	case c.Apart:
		return "; " + reason
	}
	return fmt.Sprintf("; in %d of them %s", c.Queued, reason)
}

// signedRange is the least and the largest of some fractions, in percent.
func signedRange(v []float64) string {
	write := func(x float64) string { return Unit(quantity.Signed(x*100, 1), "%") }
	low, high := write(slices.Min(v)), write(slices.Max(v))
	if low == high {
		return low
	}
	return low + " to " + high
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

// mostReturned bounds how many machines are named that went on.
const mostReturned = 20

// Returned says which machines of a fleet went on over another connection.
func Returned(names []string) string {
	named := strings.Join(names[:min(len(names), mostReturned)], ", ")
	if more := len(names) - mostReturned; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("The connection of %s to the broker ended during the run and was made anew; tests went on meanwhile: %s.", quantity.Count(len(names), "machine"), named)
}

// LackedPairs says that a trial is done again because it lacked too many pairs.
func LackedPairs(t *measurement.Trial) string {
	why := ""
	for _, f := range t.Gate.Findings {
		if f.Code == measurement.FoundPairsMissing {
			why = findings[f.Code](f)
		}
	}
	return fmt.Sprintf("Attempt %d at trial %s is discarded, and the trial is repeated at the end of its block: %s.", max(t.Attempt, 1), t.ID, why)
}

// CopiedAgain says that the trials of a test are done again, since all are to be measured
// in one way.
func CopiedAgain(test string, trials int) string {
	return fmt.Sprintf("A sender of %s had to copy its payload in the middle of the run (the user's pipes were taken, fs.pipe-user-pages-soft): %s of it are discarded and repeated, all with copies.",
		test, quantity.Count(trials, "trial"))
}
