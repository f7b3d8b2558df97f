package export

import (
	"fmt"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

// step is a row of a client's sheet: all flows of a pair together.
type step struct {
	Row
	rtts      float64 // how many round-trip times are in the mean
	from, end float64 // of what is known of it, seconds
}

// sheet is what one client did.
type sheet struct {
	client string
	steps  []step
}

// place is where a sample of a flow belongs.
type place struct {
	trial    string
	pair     int32
	at, step float64 // seconds
}

// sheets adds the flows of each pair up, client by client in the order of their first
// trial. Samples that are finer are put together by the second.
func (r Run) sheets() ([]*sheet, error) {
	var all []*sheet
	byClient := map[string]*sheet{}
	index := map[place]int{}
	total := 0
	for row, err := range r.rows() {
		if err != nil {
			return nil, err
		}
		if row.Pair == 0 || row.Flow > 0 && row.Received == nil {
			continue // the pair's own rows have what it counted
		}
		s := byClient[row.Source]
		if s == nil {
			if len(all) == mostClients {
				return nil, fmt.Errorf("the run has more than %d clients, which are too many sheets for a spreadsheet; %s", mostClients, remedy)
			}
			s = &sheet{client: row.Source}
			byClient[row.Source] = s
			all = append(all, s)
		}
		for _, row := range row.parts() {
			if row.Flow > 0 {
				at := place{row.Trial, row.Pair, row.At, row.Step} // which all flows of a reading share
				if i, ok := index[at]; ok {
					s.steps[i].add(row)
					continue
				}
				index[at] = len(s.steps)
				row.Flow = 0
				row.Row = row.own()
			}
			// A time is what an agent says it is: what all clients together take is bounded, too.
			if total++; total > mostRows || len(s.steps) == mostSheetRows || row.At/row.Step >= mostSheetRows {
				return nil, fmt.Errorf("the run has more than %d steps, or %d of one client, which are too many rows for a spreadsheet; %s", mostRows, mostSheetRows, remedy)
			}
			s.steps = append(s.steps, row)
		}
	}
	for _, s := range all {
		for i := range s.steps {
			s.steps[i].cut()
		}
	}
	return all, nil
}

// negligible is the part of a sample that may lie in another second than the rest: readings
// are never quite even.
const negligible = 0.01

// parts are what a row adds to steps: a sample that is finer than a second to that in which it
// is, or to both of two.
func (r Row) parts() []step {
	whole := step{Row: r, rtts: 1, from: r.At, end: r.At + r.Step}
	if r.Flow == 0 || r.Step >= 1 {
		return []step{whole}
	}
	first := whole
	first.At, first.Step = math.Floor(r.At+negligible*r.Step), 1
	next := first.At + 1
	late := (whole.end - next) / r.Step
	if late <= negligible {
		return []step{first}
	}
	second := first
	first.end, second.from, second.At = next, next, next
	first.Received, second.Received = new(*r.Received*(1-late)), new(*r.Received*late)
	if r.Retransmits != nil {
		second.Retransmits = new(int64)
	}
	return []step{first, second}
}

// own is r with values of its own, to which others can be added.
func (r Row) own() Row {
	r.Received = new(*r.Received)
	if r.RTT != nil {
		r.RTT = new(*r.RTT)
	}
	if r.Retransmits != nil {
		r.Retransmits = new(*r.Retransmits)
	}
	return r
}

// tornFraction of a step may lack until it is not called that long any more.
const tornFraction = 0.1

// cut has a step be as long as it is known: the first second begins, and the last ends, with
// the test.
func (s *step) cut() {
	if known := nanoseconds(s.end - s.from); known < (1-tornFraction)*s.Step {
		s.At, s.Step = nanoseconds(s.from), known
	}
}

// add adds a sample of the same step: counts are sums, a round-trip time is a mean.
func (s *step) add(row step) {
	s.from, s.end = min(s.from, row.from), max(s.end, row.end)
	*s.Received += *row.Received
	if s.Retransmits != nil && row.Retransmits != nil {
		*s.Retransmits += *row.Retransmits
	}
	switch {
	case row.RTT == nil:
	case s.RTT == nil:
		s.RTT, s.rtts = new(*row.RTT), 1
	default:
		s.rtts++
		*s.RTT += (*row.RTT - *s.RTT) / s.rtts
	}
}

// throughput is in bits per second.
func (s step) throughput() float64 { return *s.Received * 8 / s.Step }

// line is what one trial carried over time, all clients together, and what its hops
// counted of that meanwhile, on the same axis.
type line struct {
	trial, path, test string
	colour            int // of its path
	passed            bool
	at, throughput    []float64 // seconds; bits per second
	hops              []hopLine
}

// hopLine is what a hop with all its instances carried, above the headers, in both
// directions.
type hopLine struct {
	name       string
	throughput []float64 // bits per second
}

// lines adds the clients up, trial by trial, in steps as wide as the widest of the trial;
// what each pair counted is spread evenly over its own steps.
func (r Run) lines(sheets []*sheet) ([]*line, error) {
	type bounds struct {
		*line
		width, end float64
	}
	var all []*bounds
	byTrial := map[string]*bounds{}
	for _, s := range sheets {
		for _, step := range s.steps {
			b := byTrial[step.Trial]
			if b == nil {
				b = &bounds{line: &line{trial: step.Trial, path: step.Path, test: step.Test, passed: step.Passed}}
				byTrial[step.Trial] = b
				all = append(all, b)
			}
			b.width = max(b.width, step.Step)
			b.end = max(b.end, step.At+step.Step)
		}
	}
	total := 0.0
	for _, b := range all {
		steps := math.Ceil(b.end/b.width - 1e-6)
		// How long a step took is what an agent says it is, too.
		if total += steps; !(total <= mostRows) {
			return nil, fmt.Errorf("the trials of the run would have more than %d steps, which are too many rows for a spreadsheet; %s", mostRows, remedy)
		}
		n := int(steps)
		b.at, b.throughput = make([]float64, n), make([]float64, n)
		for i := range n {
			b.at[i] = nanoseconds(float64(i) * b.width)
		}
	}
	for _, s := range sheets {
		for _, step := range s.steps {
			b := byTrial[step.Trial]
			for at, end := step.At, step.At+step.Step; at < end; {
				i := min(int(math.Floor(at/b.width+1e-9)), len(b.at)-1)
				until := min(end, float64(i+1)*b.width)
				if until <= at || i == len(b.at)-1 {
					until = end
				}
				b.throughput[i] += step.throughput() * (until - at) / b.width
				at = until
			}
		}
	}
	clean := report.OnlyFinite(r.Result)
	out := make([]*line, len(all))
	for i, b := range all {
		out[i] = b.line
		b.colour = slices.IndexFunc(clean.Paths, func(p result.PathInfo) bool { return typeset.Line(p.Name) == b.path }) + 1
		for k := range clean.Trials {
			if t := &clean.Trials[k]; typeset.Line(t.ID) == b.trial {
				b.hops = hopLines(clean, t, b.at, b.width)
			}
		}
	}
	return out, nil
}

// hopLines are those of a trial in steps of a width, in seconds.
func hopLines(r *result.Result, t *measurement.Trial, at []float64, width float64) (out []hopLine) {
	var spec measurement.Spec
	for _, test := range r.Tests {
		if test.Name == t.Test {
			spec = test.Spec
		}
	}
	tunnel := ""
	for _, p := range r.Paths {
		if p.Name == t.Path {
			tunnel = p.Tunnel
		}
	}
	framing := report.FramingOf(t, spec, tunnel)
	for _, hop := range report.WatchedHops(t) {
		l := hopLine{name: typeset.Line(hop.Label()), throughput: make([]float64, len(at))}
		for i, from := range at {
			forward, backward := hop.Payload(from, from+width, framing)
			l.throughput[i] = (forward + backward) * 8 / width
		}
		out = append(out, l)
	}
	return out
}
