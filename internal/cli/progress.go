package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/words"
)

// progress shows a run's progress: a live line on a terminal, a line per
// block elsewhere.
type progress struct {
	w      io.Writer
	quiet  bool
	live   *liveLine
	blocks int
	block  int // last one reported, on plain output
}

func newProgress(w io.Writer, quiet bool, plan experiment.Plan) *progress {
	p := &progress{w: w, quiet: quiet, live: newLiveLine(w, quiet)}
	for _, t := range plan.Trials {
		p.blocks = max(p.blocks, t.Block)
	}
	return p
}

// Begin announces the run, and its folder if there is one.
func (p *progress) Begin(e *experiment.Experiment, plan experiment.Plan, dir string) {
	if p.quiet {
		return
	}
	if fewest, comparisons := fewestBlocks(e); e.Blocks < fewest {
		fmt.Fprintf(p.w, "warning: %s\n", words.BlocksToClaim(e.Blocks, fewest, comparisons))
	}
	into := ""
	if dir != "" {
		into = ", into " + dir
	}
	fmt.Fprintf(p.w, "%s: %s × %s × %s, about %s%s\n", shown(e.Name),
		quantity.Count(len(e.Paths), "path"), quantity.Count(len(e.Tests), "test"), words.Blocks(e.Blocks, e.TwoStage), about(plan.ExpectedDuration()), into)
}

// Facts tells what the testbed could not do as wished.
func (p *progress) Facts(facts []string) {
	for _, fact := range facts {
		if !p.quiet {
			p.lasting("note: %s", shown(fact))
		}
	}
}

// Event shows one step.
func (p *progress) Event(e runner.Event) {
	switch {
	case p.quiet:
	case e.Rebuilt != nil:
		p.lasting("the lab broke and was built again: %s", shown(e.Rebuilt.Error()))
	case e.Finished != nil:
		if !e.Finished.Gate.Passed {
			p.lasting("trial %s does not count: %s", e.Finished.ID, shown(words.Findings(e.Finished.Gate, true)))
		}
		if !p.live.shown && e.Finished.Block > 0 && (e.Done == e.Planned || e.Finished.Block != p.block) {
			p.block = e.Finished.Block
			fmt.Fprintf(p.w, "block %d/%d, trial %d/%d, %s left\n", p.block, p.blocks, e.Done, e.Planned, clock(e.Left))
		}
	default:
		block := fmt.Sprintf("block %d/%d", e.Trial.Block, p.blocks)
		if e.Trial.Block == 0 {
			block = "explaining"
		}
		p.live.draw(fmt.Sprintf("%3d/%d  %s  %s left  %s %s%s",
			e.Done, e.Planned, block, clock(e.Left), e.Trial.Path, e.Trial.Test, liveValue(e.Live)))
	}
}

// lasting prints a line that stays, above the live one.
func (p *progress) lasting(format string, args ...any) {
	p.live.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// End clears the live line.
func (p *progress) End() { p.live.clear() }

// redrawEvery bounds how often the live line is drawn: drawing takes
// CPU time from what is measured.
const redrawEvery = 500 * time.Millisecond

// liveLine is one line of a terminal, redrawn in place; elsewhere it shows
// nothing.
type liveLine struct {
	w     io.Writer
	shown bool // false: nothing is ever drawn
	drawn time.Time
}

func newLiveLine(w io.Writer, quiet bool) *liveLine {
	return &liveLine{w: w, shown: !quiet && isTerminal(w)}
}

// draw replaces the line's text, unless that was done a moment ago.
func (l *liveLine) draw(text string) {
	if !l.shown || time.Since(l.drawn) < redrawEvery {
		return
	}
	l.drawn = time.Now()
	runes := []rune(text)
	if width := terminalWidth(l.w); len(runes) >= width {
		text = string(runes[:width-1])
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", text)
}

// clear makes room for lasting output.
func (l *liveLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// liveValue is what a running test shows of itself, empty when nothing.
func liveValue(p *measurement.Progress) string {
	switch {
	case p == nil:
		return ""
	case p.Throughput > 0:
		return "  " + quantity.Format(p.Throughput, measurement.BitsPerSecond)
	case p.RTT > 0:
		return "  " + quantity.Format(float64(p.RTT), measurement.SecondsUnit)
	}
	return ""
}

// clock prints a duration as minutes and seconds.
func clock(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}
