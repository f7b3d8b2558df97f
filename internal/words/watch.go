package words

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/watch"
)

// WatchedSeries names a series: "RTT p50 of latency", or, of an experiment, with its paths.
func WatchedSeries(s watch.Series) string {
	text := measurement.MetricOf(s.Metric).Label + " of " + s.Test
	switch {
	case s.Baseline != "":
		return text + ", " + s.Path + " against " + s.Baseline
	case s.Path != "":
		return text + " on " + s.Path
	}
	return text
}

// WatchedValue writes a point of a series.
func WatchedValue(s watch.Series, v float64) string {
	metric := measurement.MetricOf(s.Metric)
	if math.Abs(v) < 1e-12 {
		v = 0 // what logarithms leave of it
	}
	switch {
	case s.Baseline != "" && metric.ByRatio():
		return Ratio(v)
	case s.Baseline != "":
		return withSign(v, metric.Unit)
	}
	return Value(v, metric.Unit)
}

// byShare says that changes of a series are written as a share of its level.
func byShare(s watch.Series, level float64) bool {
	metric := measurement.MetricOf(s.Metric)
	return metric.Unit != measurement.Fraction && (s.Baseline == "" || metric.ByRatio()) && level > 0
}

// watchedChange writes a change of a level by its size: "+47 %", or in points of a share.
func watchedChange(s watch.Series, level, change float64) string {
	if !quantity.Finite(change) {
		return None
	}
	if byShare(s, level) {
		share := 100 * change / level
		return Unit(quantity.Signed(share, quantity.Decimals(share, 2)), "%")
	}
	if measurement.MetricOf(s.Metric).Unit == measurement.Fraction {
		return Unit(quantity.Signed(100*change, quantity.Decimals(100*change, 2)), "points")
	}
	return withSign(change, measurement.MetricOf(s.Metric).Unit)
}

// SmallestChanges writes the smallest changes that are found: "−25 %, +30 %", and those
// that medians of blocks show where they are known.
func SmallestChanges(s watch.Series, l watch.Limits) string {
	text := dropAndRise(s, l.Level, l.SmallestDrop, l.SmallestRise)
	if l.BlockRise > 0 {
		text += fmt.Sprintf("; in medians of %d: %s", l.Block, dropAndRise(s, l.Level, l.BlockDrop, l.BlockRise))
	}
	return text
}

// dropAndRise writes changes both ways; a level that cannot drop by so much has the rise alone.
func dropAndRise(s watch.Series, level, drop, rise float64) string {
	up := watchedChange(s, level, rise)
	if s.Baseline == "" && drop >= level {
		return up
	}
	return watchedChange(s, level, -drop) + ", " + up
}

// FalseAlarms states how many false alarms to expect.
func FalseAlarms(perYear float64) string {
	if perYear < 1 {
		return fmt.Sprintf("at most one false alarm in %s on average, all series together", quantity.Count(int(1/perYear), "year"))
	}
	return fmt.Sprintf("at most %s a year on average, all series together", quantity.Count(int(math.Ceil(perYear)), "false alarm"))
}

// Route writes the hops of a path.
func Route(hops []string) string {
	if len(hops) == 0 {
		return "no hops"
	}
	shown := make([]string, len(hops))
	for i, h := range hops {
		shown[i] = cmp.Or(h, "*")
	}
	return strings.Join(shown, " ")
}

// failing names a test that fails.
func failing(f watch.Failure) string {
	if f.Path == "" {
		return f.Test
	}
	return f.Test + " on " + f.Path
}

// watchFailure says why a test brought nothing.
func watchFailure(f *watch.Failure) string {
	switch {
	case f == nil:
		return noReason
	case f.Error != "":
		return f.Error
	}
	return Findings(measurement.Gate{Findings: f.Findings}, true)
}

// answered says of what a test failed that something answered: it has another token, or is no server.
func answered(f measurement.Finding) bool {
	return f.Failure == "unauthorized" || f.Failure == "protocol"
}

// WatchEvent is what a watch announces, in a line without its time.
func WatchEvent(e watch.Event) string {
	switch e.Code {
	case watch.Started:
		rules := e.Head.Rules
		text := fmt.Sprintf("watching %s every %s; %s", e.Head.Target, quantity.FormatDuration(rules.Every.Duration()), FalseAlarms(rules.FalseAlarmsPerYear))
		if learn := rules.Learn(); e.Rounds < int64(learn) {
			text += fmt.Sprintf("; changes of a level are announced after %s", quantity.Count(learn, "sample"))
		} else {
			text += "; continues after " + quantity.Count(int(e.Rounds), "round")
		}
		return text
	case watch.RoundEnded:
		return watchRound(*e.Of)
	case watch.Learned:
		s, l := *e.Series, *e.Limits
		return fmt.Sprintf("%s: learned from %s: %s; smallest change found within %d: %s", WatchedSeries(s), quantity.Count(l.Samples, "sample"), WatchedValue(s, l.Level), l.InARow(), SmallestChanges(s, l))
	case watch.LevelChanged:
		return fmt.Sprintf("CHANGED %s: %s → %s (%s)", WatchedSeries(*e.Series), WatchedValue(*e.Series, e.Before), WatchedValue(*e.Series, e.Now), watchedChange(*e.Series, e.Before, e.Now-e.Before))
	case watch.LevelBack:
		return fmt.Sprintf("BACK %s: at %s again, after %s", WatchedSeries(*e.Series), WatchedValue(*e.Series, e.Now), WatchedValue(*e.Series, e.Before))
	case watch.RouteChanged:
		return fmt.Sprintf("CHANGED route: %s → %s", Route(e.Was), Route(e.Route))
	case watch.OutageBegan:
		if e.Failure != nil && e.Failure.Test == "" {
			return "OUTAGE: the round could not be measured: " + watchFailure(e.Failure)
		}
		if e.Failure != nil && slices.ContainsFunc(e.Failure.Findings, answered) {
			return "OUTAGE: the other end answers, and cannot be used: " + watchFailure(e.Failure)
		}
		return "OUTAGE: the other end is unreachable: " + watchFailure(e.Failure)
	case watch.OutageEnded:
		return fmt.Sprintf("outage over, after %s and %s", About(e.Lasted.Duration()), quantity.Count(int(e.Rounds), "round"))
	case watch.TestFails:
		return fmt.Sprintf("%s gave no result three times in a row: %s", failing(*e.Failure), watchFailure(e.Failure))
	case watch.TestWorks:
		return failing(*e.Failure) + " works again"
	case watch.ClockStepped:
		way := "forward"
		if e.Step < 0 {
			way = "back"
		}
		return fmt.Sprintf("the clock was set %s by %s, or the machine slept; the interval between rounds does not change", way, Time(measurement.Seconds(math.Abs(float64(e.Step)))))
	case watch.StoreFailed:
		return "the store cannot be written, rounds wait in memory: " + e.Text
	case watch.StoreWorks:
		return fmt.Sprintf("the store can be written again; %s that waited %s stored", quantity.Count(int(e.Rounds), "round"), agree(int(e.Rounds), "is", "are"))
	case watch.Stopped:
		return "stopped after " + quantity.Count(int(e.Rounds), "round")
	}
	return string(e.Code)
}

// watchRound sums a round up.
func watchRound(r watch.Round) string {
	var parts []string
	for _, p := range r.Points {
		parts = append(parts, WatchedSeries(p.Series)+" "+WatchedValue(p.Series, p.Value))
	}
	if r.Route != nil {
		parts = append(parts, "route of "+quantity.Count(len(r.Route), "hop"))
	}
	for _, f := range r.Failed {
		if f.Test != "" {
			parts = append(parts, failing(f)+" failed")
		} else {
			parts = append(parts, "could not be measured: "+watchFailure(&f))
		}
	}
	if len(r.Skipped) > 0 {
		parts = append(parts, "skipped because of the budget: "+strings.Join(r.Skipped, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing")
	}
	return fmt.Sprintf("round %d: %s", r.Number, strings.Join(parts, "; "))
}

// LongRound says what becomes of the interval of a watch whose round took longer, nothing of
// one that did not.
func LongRound(r watch.Round, every time.Duration) string {
	took := r.Elapsed.Duration()
	if took <= every {
		return ""
	}
	return fmt.Sprintf("round %d took %s, longer than --every %s: while rounds take so long, one begins every %s, and levels are learned as many times later",
		r.Number, Time(r.Elapsed), quantity.FormatDuration(every), quantity.FormatDuration((took + every - 1).Truncate(every)))
}

// SpentBudget says of a round that did nothing, since the budget did not suffice, when it will, and
// nothing of another. Moved is what each test moved the last time, in bytes, and budget is that of a
// day.
func SpentBudget(r watch.Round, moved map[string]int64, budget int64) string {
	if len(r.Skipped) == 0 || len(r.Points)+len(r.Failed)+len(r.Worked) > 0 {
		return ""
	}
	least := slices.MinFunc(r.Skipped, func(a, b string) int { return cmp.Compare(moved[a], moved[b]) })
	days := max(float64(moved[least])-r.Left, 0) / float64(budget)
	wait := quantity.Count(int(math.Ceil(days)), "day")
	if days < 2 {
		wait = quantity.Count(int(math.Ceil(24*days)), "hour")
	}
	return fmt.Sprintf("round %d measured nothing: %s moved %s the last time, which --budget allows again in about %s; start the watch again with a larger --budget, or with 0 for no limit",
		r.Number, least, quantity.Format(float64(moved[least]), measurement.Bytes), wait)
}

// WatchMoment is a time on a line of a watch, in local time with its zone.
func WatchMoment(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// TrendDescription says what the picture of a trend shows.
func TrendDescription(label string, samples, changes int) string {
	return fmt.Sprintf("%s over time: %s, %s; the band is between the limits", label, quantity.Count(samples, "sample"), quantity.Count(changes, "change"))
}

// TrendCaption is how a series stands, in which so many samples in a row are a change. While its
// first reference is learned, value is the newest, and smallest None.
func TrendCaption(value, smallest string, run, missing int) string {
	state := "steady"
	if missing > 0 {
		state = "learning, " + quantity.Count(missing, "sample") + " to come"
	}
	if smallest == None {
		return fmt.Sprintf("Newest %s; %s.", value, state)
	}
	return fmt.Sprintf("Level %s; smallest change found within %d samples: %s; %s.", value, run, smallest, state)
}

// WatchLimits explains the limits of a watch.
func WatchLimits(stated string) string {
	return "A change is three samples in a row beyond a limit, or more of a series of which single ones are often beyond it. The limits follow from the noise of each series and allow " + stated + "."
}

// DamagedWatch says what cannot be read of a watch, nothing if all can. More says that others
// may be missing.
func DamagedWatch(rounds, announcements int, more bool) string {
	var missing []string
	if rounds > 0 {
		missing = append(missing, quantity.Count(rounds, "round"))
	}
	if announcements > 0 {
		missing = append(missing, quantity.Count(announcements, "announcement"))
	}
	text := "watch.sqlite is damaged: "
	switch {
	case missing == nil && !more:
		return ""
	case missing == nil:
		text += "rounds or announcements may be missing here"
	case more:
		text += List(missing) + ", and perhaps further ones, cannot be read and are left out"
	default:
		text += List(missing) + " cannot be read and " + agree(rounds+announcements, "is", "are") + " left out"
	}
	return text
}
