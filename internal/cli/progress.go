package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/runner"
)

// redrawEvery bounds how often the live line is drawn: drawing takes
// processor time from what is measured.
const redrawEvery = 500 * time.Millisecond

// progress shows a run's progress: one line redrawn in place on a terminal,
// a line per block elsewhere.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	blocks   int
	drawn    time.Time
	failed   int
	block    int // last one reported, on plain output
}

func newProgress(w io.Writer, quiet bool, plan experiment.Plan) *progress {
	p := &progress{w: w, quiet: quiet, terminal: isTerminal(w)}
	for _, t := range plan.Trials {
		p.blocks = max(p.blocks, t.Block)
	}
	return p
}

// Begin announces the run.
func (p *progress) Begin(e *experiment.Experiment, dir string) {
	if p.quiet {
		return
	}
	fmt.Fprintf(p.w, "%s: %d paths × %d tests × %d blocks, into %s\n", e.Name, len(e.Paths), len(e.Tests), e.Blocks, dir)
}

// Event shows one step.
func (p *progress) Event(e runner.Event) {
	if p.quiet {
		return
	}
	switch {
	case e.Rebuilt != nil:
		p.line("the lab broke and was built again: %v", e.Rebuilt)
	case e.Finished != nil && !e.Finished.Gate.Passed:
		p.failed++
		p.line("trial %s does not count: %s", e.Finished.ID, e.Finished.Gate.Checks[0].Reason)
	}
	if p.terminal {
		p.draw(e)
	} else if e.Finished != nil && (e.Done == e.Planned || e.Finished.Block != p.block) {
		p.block = e.Finished.Block
		fmt.Fprintf(p.w, "block %d/%d, trial %d/%d, %s left\n", e.Finished.Block, p.blocks, e.Done, e.Planned, clock(e.Left))
	}
}

// draw redraws the live line.
func (p *progress) draw(e runner.Event) {
	if e.Trial.ID == "" || time.Since(p.drawn) < redrawEvery {
		return
	}
	p.drawn = time.Now()
	live := ""
	if e.Live != nil && e.Live.Throughput > 0 {
		live = fmt.Sprintf("  %.3g Gbit/s", e.Live.Throughput/1e9)
	} else if e.Live != nil && e.Live.RTT > 0 {
		live = fmt.Sprintf("  %.3g ms", float64(e.Live.RTT)*1e3)
	}
	text := fmt.Sprintf("%3d/%d  block %d/%d  %s left  %s %s%s", e.Done, e.Planned, e.Trial.Block, p.blocks, clock(e.Left), e.Trial.Path, e.Trial.Test, live)
	if width := terminalWidth(p.w); len(text) >= width {
		text = text[:width-1]
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
}

// line prints a lasting line above the live one.
func (p *progress) line(format string, args ...any) {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

// End clears the live line.
func (p *progress) End() {
	if !p.quiet && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// clock prints a duration as minutes and seconds.
func clock(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}
