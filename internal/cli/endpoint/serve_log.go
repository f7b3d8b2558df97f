package endpoint

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
)

// oneOffGrace is how long a server that serves one client waits for that
// client's next test: a profile has several, and latency under load is two.
const oneOffGrace = 2 * time.Second

// serveLog writes a line for the beginning and the end of each test, and knows
// when the server has nothing to do any more.
type serveLog struct {
	w     io.Writer
	quiet bool
	// idle, when set, is called once no test has run for oneOffGrace after the
	// first one.
	idle func()

	mu      sync.Mutex
	running int
	timer   *time.Timer
}

func (l *serveLog) event(e probe.TestEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.quiet {
		fmt.Fprintf(l.w, "%s  %v  %s\n", time.Now().Format(time.TimeOnly), e.Client, printable.Line(eventText(e), longestEvent))
	}
	if !e.Ended {
		l.running++
		if l.timer != nil {
			l.timer.Stop()
		}
		return
	}
	if l.running--; l.running == 0 && l.idle != nil {
		l.timer = time.AfterFunc(oneOffGrace, l.done)
	}
}

// longestEvent bounds the text of a line, in characters.
const longestEvent = 300

// done ends a server whose client did not come back.
func (l *serveLog) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 {
		l.idle()
	}
}

func (l *serveLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// eventText is a test's beginning or end in a few words.
func eventText(e probe.TestEvent) string {
	text := describe(e.Spec)
	switch {
	case !e.Ended:
		return text + ": began"
	case e.Vanished:
		return fmt.Sprintf("%s: closed by the client after %.1f s", text, e.Elapsed.Seconds())
	case e.Err != nil:
		return fmt.Sprintf("%s: failed after %.1f s: %v", text, e.Elapsed.Seconds(), e.Err)
	}
	return fmt.Sprintf("%s: done in %.1f s", text, e.Elapsed.Seconds()) + moved(e)
}

// moved is the mean rate of a test of throughput over all of its time, its warm-up included.
func moved(e probe.TestEvent) string {
	if primary, ok := measurement.PrimaryOf(e.Spec.Kind); !ok || primary.Unit != measurement.BitsPerSecond || e.Bytes == 0 || e.Elapsed <= 0 {
		return ""
	}
	return ", " + quantity.Format(float64(e.Bytes)*8/e.Elapsed.Seconds(), measurement.BitsPerSecond)
}

// describe names what a test does.
func describe(spec measurement.Spec) string {
	parts := []string{string(spec.Kind)}
	if spec.Tool == measurement.IPerf3 {
		parts[0] += " (iperf3)"
	}
	if spec.Protocol != "" {
		parts = append(parts, "over "+string(spec.Protocol))
	}
	switch {
	case spec.FileBytes > 0 && spec.Flows > 1:
		parts = append(parts, fmt.Sprintf("%s in %s", quantity.Format(float64(spec.FileBytes), measurement.Bytes), quantity.Count(spec.Flows, "segment")))
	case spec.FileBytes > 0:
		parts = append(parts, quantity.Format(float64(spec.FileBytes), measurement.Bytes))
	case spec.Flows > 0:
		parts = append(parts, quantity.Count(spec.Flows, "flow"))
	}
	switch spec.Direction {
	case measurement.Send:
		parts = append(parts, "to here")
	case measurement.Receive:
		parts = append(parts, "from here")
	case measurement.Both:
		parts = append(parts, "both directions")
	}
	if spec.RateBitsPerSecond > 0 {
		parts = append(parts, "at "+quantity.Format(spec.RateBitsPerSecond, measurement.BitsPerSecond))
	}
	if spec.Duration > 0 {
		parts = append(parts, quantity.FormatDuration(spec.Duration.Duration()))
	}
	return strings.Join(parts, ", ")
}
