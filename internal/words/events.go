package words

import (
	"fmt"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// About writes how long something is expected to take, or took.
func About(d time.Duration) string {
	const day = 24 * time.Hour
	minutes := d.Round(time.Minute)
	switch {
	case minutes >= 2*day:
		days := d.Hours() / day.Hours()
		return quantity.Number(days, quantity.Decimals(days, 2)) + " days"
	case minutes%time.Hour == 0 && minutes >= 2*time.Hour:
		return fmt.Sprintf("%d h", minutes/time.Hour)
	case minutes >= 2*time.Hour:
		return fmt.Sprintf("%d h %d min", minutes/time.Hour, minutes%time.Hour/time.Minute)
	case d >= 90*time.Second:
		return fmt.Sprintf("%d min", minutes/time.Minute)
	}
	return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
}

// Clock writes a duration as minutes and seconds.
func Clock(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}

// Live is what a running test shows of itself, empty when nothing.
func Live(throughputBitsPerSecond float64, rtt measurement.Seconds) string {
	switch {
	case throughputBitsPerSecond > 0:
		return Rate(throughputBitsPerSecond)
	case rtt > 0:
		return Time(rtt)
	}
	return ""
}

// LiveSecond is what a second of a trial shows: that nothing moves, too, of a test that moves
// bytes.
func LiveSecond(s event.Second) string {
	text := Live(s.Rate(), s.RTT)
	if text == "" && s.Throughput != nil {
		text = Rate(0)
	}
	return text
}

// RunStarted announces a run.
func RunStarted(e event.Event) string {
	r, time := e.Run, "about "+About(e.Run.Expected.Duration())
	switch {
	case e.Done > 0 && e.Done == e.Planned:
		time = fmt.Sprintf("all %s stored", quantity.Count(e.Done, "trial"))
	case e.Done > 0:
		time = fmt.Sprintf("%d of %d trials stored, about %s left", e.Done, e.Planned, About(e.Left.Duration()))
	}
	text := fmt.Sprintf("%s: %s × %s × %s, %s", r.Name,
		quantity.Count(len(r.Paths), "path"), quantity.Count(len(r.Tests), "test"), Blocks(r.Blocks, r.TwoStage), time)
	if r.Folder != "" {
		text += ", into " + r.Folder
	}
	return text
}

// DoesNotCount says why a trial is left out, or how its path broke it, which counts as the worst.
func DoesNotCount(id string, g measurement.Gate) string {
	if g.Broken {
		return fmt.Sprintf("trial %s was broken by its path: %s", id, Findings(g, true))
	}
	return fmt.Sprintf("trial %s does not count: %s", id, Findings(g, true))
}

// Brought is the primary metric of a test, empty where it has none.
func Brought(kind measurement.Kind, m measurement.Metrics) string {
	primary, ok := measurement.PrimaryOf(kind)
	v, known := m[primary.Name]
	if !ok || !known {
		return ""
	}
	return Value(v, primary.Unit)
}

// Clocks says how far apart the starts and the clocks of a trial were.
func Clocks(c event.ClockSpread) string {
	var parts []string
	if c.Start > 0 {
		parts = append(parts, "pairs began within "+Time(c.Start))
	}
	if c.Uncertainty > 0 {
		parts = append(parts, "clocks are known within "+Time(c.Uncertainty))
	}
	if len(parts) == 0 {
		return "pairs began at the same time"
	}
	return strings.Join(parts, ", ")
}

// lostEvents says that a view could not keep up.
func lostEvents(n int64) string {
	return quantity.Count(int(n), "event") + " came too fast for this view and " + agree(int(n), "is", "are") + " missing here; the run has all of them"
}

// StoreLag says that samples of a fleet wait for the coordinator's disk.
func StoreLag(l event.Lag) string {
	switch {
	case l.Behind == 0 && l.Coarsened+l.Dropped > 0:
		return fmt.Sprintf("all received samples are on the disk; so far machines thinned %s and dropped %s", quantity.Count(int(l.Coarsened), "block"), quantity.Count(int(l.Dropped), "sample"))
	case l.Behind == 0:
		return "all samples are on the disk again"
	case l.Error != "":
		return "samples cannot be written to the disk for " + Elapsed(l.Behind.Duration()) + ", and the machines keep them: " + l.Error
	}
	return fmt.Sprintf("samples of the last %s wait for a slow disk; the machines keep them", Elapsed(l.Behind.Duration()))
}

// Fleet says how the machines of a fleet stand: how many of its pairs move something in a
// trial that goes on, and what waits for a client.
func Fleet(f event.Fleet, second *event.Second) []string {
	pairs := quantity.Count(f.Seats.Leased, "pair") + " ready"
	if second != nil && len(second.Pairs) > 0 {
		pairs = fmt.Sprintf("%d of %s running", second.Running(), quantity.Count(len(second.Pairs), "pair"))
	}
	if f.Seats.Lost > 0 {
		pairs += fmt.Sprintf(", %d lost", f.Seats.Lost)
	}
	parts := []string{quantity.Count(f.Machines, "machine"), pairs}
	if n := f.Seats.Waiting; n > 0 {
		parts = append(parts, quantity.Count(n, "seat")+" waiting for a client")
	}
	return parts
}

// SamplesGivenUp says that the samples of a fleet are not complete.
func SamplesGivenUp(machines int, samples int64) string {
	return fmt.Sprintf("%s of the fleet dropped %s that they could not send; the results of the trials are not affected.",
		quantity.Count(machines, "machine"), quantity.Count(int(samples), "sample"))
}

// DamagedBlocks names samples of a machine that cannot be read.
func DamagedBlocks(machine string, blocks int) string {
	return quantity.Count(blocks, "block") + " of samples of " + machine
}

// ResultsLate says that machines of a fleet brought results of trials that were over.
func ResultsLate(results int) string {
	return fmt.Sprintf("%s of machines of the fleet came after the trial was over, and %s not count: the connection had ended, or the coordinator.",
		quantity.Count(results, "result"), agree(results, "does", "do"))
}

// Event is a line of the log of a run.
func Event(e event.Event) string {
	switch e.Code {
	case event.RunStarted:
		return RunStarted(e)
	case event.BlockStarted:
		return fmt.Sprintf("block %d", e.Block)
	case event.TrialStarted:
		return fmt.Sprintf("trial %s begins", e.Trial.ID)
	case event.Switched:
		text := fmt.Sprintf("path %s is in force", e.Trial.Path)
		if s := e.Switch; s != nil {
			text += fmt.Sprintf(": %s, after %s, proof %s", strings.Join(Settings(s.Set, "="), " "), Time(s.Took), s.Proof)
		}
		return text
	case event.Measured:
		return LiveSecond(*e.Second)
	case event.TrialEnded:
		if e.Ended.State() != event.Passed {
			return DoesNotCount(e.Trial.ID, e.Ended.Gate)
		}
		text := fmt.Sprintf("trial %s counts", e.Trial.ID)
		if brought := Brought(e.Trial.Kind, e.Ended.Metrics); brought != "" {
			text += ": " + brought
		}
		return text
	case event.Spread:
		return Clocks(*e.Clocks)
	case event.StoreLag:
		return StoreLag(*e.Lag)
	case event.Joined:
		return fmt.Sprintf("machine %s joined: %d there", e.Fleet.Machine, e.Fleet.Machines)
	case event.Left:
		return fmt.Sprintf("machine %s left, %d there: %s", e.Fleet.Machine, e.Fleet.Machines, e.Text)
	case event.Queued:
		return quantity.Count(e.Fleet.Seats.Waiting, "seat") + " waiting for a client"
	case event.Leased:
		return fmt.Sprintf("seat %d at %s is %s’s: %s ready", e.Fleet.Seat, e.Fleet.Server, e.Fleet.Client, quantity.Count(e.Fleet.Seats.Leased, "pair"))
	case event.Vacated:
		return fmt.Sprintf("seat %d at %s, which %s had, is lost: %s", e.Fleet.Seat, e.Fleet.Server, e.Fleet.Client, e.Text)
	case event.Fault:
		return "the testbed broke and was rebuilt: " + e.Text
	case event.RunEnded:
		if e.End.Why != "" {
			return "the run ended early: " + e.End.Why
		}
		return "the run ended after " + Elapsed(e.End.Elapsed.Duration())
	case event.Lost:
		return lostEvents(e.LostEvents)
	}
	return e.Text
}
