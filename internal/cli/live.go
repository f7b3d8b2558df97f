package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

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
