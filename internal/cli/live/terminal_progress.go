package live

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/words"
)

// terminalView shows a run as it goes on: a live line on a terminal, a line per block
// elsewhere.
type terminalView struct {
	w      io.Writer
	quiet  bool
	live   *Line
	blocks int
	block  int  // last one reported, on plain output
	late   bool // samples wait for the disk, and that was told
	// fleet is how machines and seats stand, nil without any; clocks is of the last trial,
	// lag what waits for the disk.
	fleet  *event.Fleet
	clocks *event.ClockSpread
	lag    *event.Lag
	// recent are what the last seconds of the trial under way showed, oldest first.
	recent []float64
}

func (v *terminalView) show(e event.Event) {
	if v.quiet {
		return
	}
	switch e.Code {
	case event.RunStarted:
		v.blocks = e.Run.Blocks
		v.lasting("%s", words.RunStarted(e))
	case event.Warning:
		v.lasting("warning: %s", e.Text)
	case event.StoreLag:
		v.lag = e.Lag
		if late := e.Lag.Behind > 0; late != v.late {
			v.late = late
			v.lasting("warning: %s", words.StoreLag(*e.Lag))
		}
	case event.Joined, event.Left, event.Queued, event.Leased, event.Vacated:
		v.fleet = e.Fleet
	case event.Spread:
		v.clocks = e.Clocks
	case event.Note, event.Lost:
		v.lasting("note: %s", words.Event(e))
	case event.TrialStarted:
		v.recent = nil
		v.draw(e, "")
	case event.Measured:
		v.draw(e, v.second(*e.Second)+v.standing(e.Second))
	case event.TrialEnded:
		if !e.Ended.Gate.Passed {
			v.lasting("%s", words.DoesNotCount(e.Trial.ID, e.Ended.Gate))
		}
		if !v.live.Shown && e.Trial.Block > 0 && (e.Done == e.Planned || e.Trial.Block != v.block) {
			v.block = e.Trial.Block
			v.lasting("block %d/%d, trial %d/%d, %s left", v.block, v.blocks, e.Done, e.Planned, words.Clock(e.Left.Duration()))
		}
	}
}

// mostRecent is how many seconds the live line draws.
const mostRecent = 20

// second is what the live line shows of a second: its value, a bar for each of the last
// seconds, and how many of several pairs move anything.
func (v *terminalView) second(s event.Second) string {
	value := words.LiveSecond(s)
	if value == "" {
		return ""
	}
	height := s.Rate()
	if height == 0 {
		height = float64(s.RTT)
	}
	if v.recent = append(v.recent, height); len(v.recent) > mostRecent {
		v.recent = v.recent[1:]
	}
	text := "  " + value + " " + bars(v.recent)
	if n := len(s.Pairs); n > 0 && v.fleet == nil {
		text += fmt.Sprintf("  %d of %d pairs", s.Running(), n)
	}
	return text
}

// standing is a second line, of how the machines of a fleet stand; empty without any.
func (v *terminalView) standing(s *event.Second) string {
	if v.fleet == nil {
		return ""
	}
	parts := words.Fleet(*v.fleet, s)
	if v.clocks != nil {
		parts = append(parts, words.Clocks(*v.clocks))
	}
	if v.late {
		parts = append(parts, "samples of "+words.Elapsed(v.lag.Behind.Duration())+" wait for the disk")
	}
	return "\n         " + strings.Join(parts, "; ")
}

// bars draws values as a bar each, the greatest as high as a line.
func bars(values []float64) string {
	const heights = "▁▂▃▄▅▆▇█"
	each := []rune(heights)
	most := slices.Max(values)
	out := make([]rune, len(values))
	for i, x := range values {
		if most > 0 && x > 0 {
			out[i] = each[min(int(x/most*float64(len(each))), len(each)-1)]
		} else {
			out[i] = each[0]
		}
	}
	return string(out)
}

// draw draws the live line of a trial.
func (v *terminalView) draw(e event.Event, value string) {
	block := fmt.Sprintf("block %d/%d", e.Trial.Block, v.blocks)
	if e.Trial.Block == 0 {
		block = "explaining"
	}
	v.live.Draw(fmt.Sprintf("%3d/%d  %s  %s left  %s %s%s",
		e.Done, e.Planned, block, words.Clock(e.Left.Duration()), e.Trial.Path, e.Trial.Test, value))
}

// lasting prints a line that stays, above the live one.
func (v *terminalView) lasting(format string, args ...any) {
	v.live.Clear()
	fmt.Fprintln(v.w, base.Shown(fmt.Sprintf(format, args...)))
}

// redrawEvery bounds how often the live line is drawn: drawing takes
// CPU time from what is measured.
const redrawEvery = 500 * time.Millisecond

// Line is a line of a terminal, or a few, redrawn in place; elsewhere it shows
// nothing.
type Line struct {
	w     io.Writer
	Shown bool // false: nothing is ever drawn
	drawn time.Time
	above int // lines above the one in which the cursor is
}

func NewLine(w io.Writer, quiet bool) *Line {
	return &Line{w: w, Shown: !quiet && base.TakesEscapes(w)}
}

// Draw replaces the text, unless that was done a moment ago.
func (l *Line) Draw(text string) {
	if !l.Shown || time.Since(l.drawn) < redrawEvery {
		return
	}
	l.drawn = time.Now()
	lines := strings.Split(text, "\n")
	width := base.TerminalWidth(l.w)
	for i, line := range lines {
		if runes := []rune(line); len(runes) >= width {
			lines[i] = string(runes[:width-1])
		}
	}
	l.Clear()
	fmt.Fprint(l.w, strings.Join(lines, "\r\n"))
	l.above = len(lines) - 1
}

// Clear makes room for lasting output.
func (l *Line) Clear() {
	if !l.Shown {
		return
	}
	if l.above > 0 {
		fmt.Fprintf(l.w, "\x1b[%dA", l.above)
		l.above = 0
	}
	fmt.Fprint(l.w, "\r\x1b[J")
}
