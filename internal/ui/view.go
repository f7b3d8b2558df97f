package ui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// clean makes a text of a stranger's harmless; the templates escape it.
func clean(text string) string { return typeset.Line(text) }

// view is where a run is, as the page shows it.
type view struct {
	Number        int64 // of the last event
	Report        bool  // there is one
	Title, Folder string
	State         string // in a word
	StateClass    string
	Status        []string
	Percent       int // of the trials
	Why           string
	Now           now
	Fleet         []figure // none without machines that join
	Tests         []string
	Rows          []row
	Hops          []hop
	Log           []line
}

// now is what goes on.
type now struct {
	What      string // path and test, or why there is none
	Rate, RTT string
	Pairs     int // where there are several
	Elapsed   string
}

// figure is a number with its name.
type figure struct{ Name, Value string }

// row is a path, with a cell for every test.
type row struct {
	Path  string
	Cells []cell
}

type cell struct {
	Value, Unit string // of the last trial that passed
	Done        string
	Wrong       string // trials that are broken or missing
	Running     bool
}

// hop is a row of the counters.
type hop struct{ Name, Forward, Backward, Packets, Dropped, CPU, Connections string }

// line of the log.
type line struct{ At, Text, Class string }

func newView(s event.State) view {
	v := view{Number: s.Number, Title: "No run has begun yet", State: "waiting", StateClass: "v-open"}
	if s.Run == nil {
		return v
	}
	v.Title, v.Folder = cmp.Or(clean(s.Run.Title), clean(s.Run.Name)), clean(s.Run.Folder)
	v.state(s)
	v.now(s)
	v.fleet(s)
	v.cells(s)
	for _, h := range s.Hops {
		v.Hops = append(v.Hops, newHop(h))
	}
	for i := len(s.Log) - 1; i >= 0; i-- { // the newest on top
		e := s.Log[i]
		v.Log = append(v.Log, line{At: e.Time.Format(time.TimeOnly), Text: clean(words.Event(e)), Class: classOf(e)})
	}
	return v
}

// classOf is the style of an event in the log.
func classOf(e event.Event) string {
	switch {
	case e.Code == event.Fault, e.Code == event.Vacated, e.Code == event.TrialEnded && e.Ended.State() == event.Broken, e.Code == event.RunEnded && e.End.Why != "":
		return "bad"
	case e.Code == event.Warning, e.Code == event.Left, e.Code == event.TrialEnded && e.Ended.State() == event.Missing, e.Code == event.Lost:
		return "warn"
	case e.Code == event.BlockStarted, e.Code == event.RunStarted, e.Code == event.RunEnded:
		return "mark"
	}
	return ""
}

func (v *view) state(s event.State) {
	if s.Planned > 0 {
		v.Percent = 100 * s.Done / s.Planned
	}
	v.State, v.StateClass = "running", "v-fine"
	trials := fmt.Sprintf("%d of %s stored", s.Done, quantity.Count(s.Planned, "trial"))
	switch {
	case s.End != nil && s.End.Why != "":
		v.State, v.StateClass, v.Why = "ended early", "v-costs", clean(s.End.Why)
		v.Status = []string{trials, words.Elapsed(s.End.Elapsed.Duration())}
	case s.End != nil:
		v.State = "done"
		v.Status = []string{trials, words.Elapsed(s.End.Elapsed.Duration())}
	default:
		if s.Block > 0 {
			v.Status = append(v.Status, fmt.Sprintf("block %d of %d", s.Block, s.Run.Blocks))
		}
		v.Status = append(v.Status, trials, words.Clock(s.Left.Duration())+" left")
	}
	if s.Faults > 0 {
		v.Status = append(v.Status, quantity.Count(s.Faults, "fault"))
	}
	if s.Clocks != nil {
		v.Status = append(v.Status, words.Clocks(*s.Clocks))
	}
}

func (v *view) now(s event.State) {
	switch t := s.Trial; {
	case t != nil:
		v.Now.What = clean(t.Path) + ", " + clean(t.Test)
	case s.End != nil:
		v.Now.What = "The run is over."
	default:
		v.Now.What = "Between two trials"
	}
	if second := s.Second; second != nil {
		if second.Throughput != nil {
			v.Now.Rate = words.Rate(*second.Throughput)
		}
		if second.RTT > 0 {
			v.Now.RTT = words.Time(second.RTT)
		}
		v.Now.Elapsed, v.Now.Pairs = words.Time(second.At), len(second.Pairs)
	}
}

func (v *view) fleet(s event.State) {
	f := s.Fleet
	if f == nil {
		return
	}
	add := func(name string, n int) { v.Fleet = append(v.Fleet, figure{name, quantity.Number(float64(n), 0)}) }
	add("machines", f.Machines)
	add("pairs ready", f.Seats.Leased)
	if s.Second != nil && len(s.Second.Pairs) > 0 {
		add("pairs running", s.Second.Running())
	}
	add("pairs lost", f.Seats.Lost)
	add("seats waiting", f.Seats.Waiting)
	if s.Clocks != nil {
		v.Fleet = append(v.Fleet, figure{"clocks within", words.Time(s.Clocks.Uncertainty)})
	}
	behind := measurement.Seconds(0)
	if s.Lag != nil {
		behind = s.Lag.Behind
	}
	v.Fleet = append(v.Fleet, figure{"disk behind", words.Elapsed(behind.Duration())})
	if s.Coarsened > 0 {
		add("blocks made coarser", int(s.Coarsened))
	}
	if s.Dropped > 0 {
		add("samples given up", int(s.Dropped))
	}
}

func (v *view) cells(s event.State) {
	for _, test := range s.Run.Tests {
		v.Tests = append(v.Tests, clean(test))
	}
	for _, path := range s.Run.Paths {
		r := row{Path: clean(path)}
		for _, test := range s.Run.Tests {
			r.Cells = append(r.Cells, newCell(s, event.Cell{Path: path, Test: test}))
		}
		v.Rows = append(v.Rows, r)
	}
}

func newCell(s event.State, of event.Cell) cell {
	tally := s.Cells[of]
	c := cell{Running: s.Trial != nil && s.Trial.Path == of.Path && s.Trial.Test == of.Test, Value: words.None}
	if tally.Last != nil {
		if primary, ok := measurement.PrimaryOf(tally.Kind); ok {
			c.Value, c.Unit = quantity.Split(tally.Last.Metrics[primary.Name], primary.Unit)
		}
	}
	done := 0
	var wrong []string
	for _, state := range event.TrialStates() {
		n := tally.Trials[state]
		if done += n; n > 0 && state != event.Passed {
			wrong = append(wrong, fmt.Sprintf("%d %s", n, state))
		}
	}
	c.Done, c.Wrong = quantity.Count(done, "trial"), strings.Join(wrong, ", ")
	return c
}

func newHop(h event.HopTotals) hop {
	c := h.Counted
	out := hop{
		Name: clean(h.Name), Forward: words.Value(c.ForwardBytes, measurement.Bytes), Backward: words.Value(c.BackwardBytes, measurement.Bytes),
		Packets: quantity.Number(c.ForwardPackets+c.BackwardPackets, 0), Dropped: quantity.Number(c.DroppedPackets, 0), CPU: words.None, Connections: words.None,
	}
	if h.Instance > 0 {
		out.Name += fmt.Sprintf(" %d", h.Instance)
	}
	if cpu := c.CPU + c.KernelCPU; cpu > 0 {
		out.CPU = words.Time(cpu)
	}
	if c.Connections != nil {
		out.Connections = quantity.Number(*c.Connections, 0)
	}
	return out
}
