package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/words"
)

// hopsAgree is how far what a hop counted may lie from what the receivers
// confirmed for the two to agree, as a fraction. What is sent again crosses a
// hop twice and is confirmed once.
const hopsAgree = 0.03

// Headers in front of the payload at layer 2, in bytes: Ethernet 14, IPv4 20,
// TCP 20 and its timestamps 12 (RFC 7323), or UDP 8.
const (
	ethernetHeader = 14
	tcpHeaders     = 20 + 20 + 12
	udpHeaders     = 20 + 8
	// vxlanHeaders are those around an inner frame (RFC 7348, section 5).
	vxlanHeaders = 50
)

// Bounds of what a report shows of hops.
const (
	maxHopSections = 24
	maxHopRows     = 40
)

// hopSection is what the hops of a path counted in the trials of one test.
type hopSection struct {
	Path, Test string
	Sentences  []string // whether that agrees with the endpoints
	Medians
	Headers int // bytes that were taken off each packet to compare
}

// watched is a hop with all its instances, as one trial saw it.
type watched struct {
	name   string
	Series []measurement.HopSeries
}

// WatchedHops are those of a trial, in the order of its path. A series without
// time in it is left out.
func WatchedHops(t *measurement.Trial) []watched {
	var out []watched
	for _, s := range t.HopSeries {
		ordered := slices.IsSortedFunc(s.Samples, func(a, b measurement.HopSample) int { return cmp.Compare(a.At, b.At) })
		if n := len(s.Samples); n < 2 || !ordered || s.Samples[0].At == s.Samples[n-1].At {
			continue
		}
		i := slices.IndexFunc(out, func(w watched) bool { return w.name == s.Name })
		if i < 0 || s.Instance == 0 {
			i, out = len(out), append(out, watched{name: s.Name})
		}
		out[i].Series = append(out[i].Series, s)
	}
	return out[:min(len(out), maxHopRows)]
}

// Label is the hop's name, with how many it is.
func (w watched) Label() string {
	name := typeset.Line(w.name)
	if name == "" {
		name = "(unnamed hop)"
	}
	if n := len(w.Series); n > 1 {
		name += " (" + quantity.Count(n, "instance") + ")"
	}
	return name
}

// at are the totals of all instances at a moment, between two samples by a
// straight line.
func (w watched) at(x float64) measurement.HopSample {
	var sum measurement.HopSample
	for _, s := range w.Series {
		sum.Combine(readAt(s.Samples, x), func(own, other float64) float64 { return own + other })
	}
	return sum
}

// readAt is the reading at x; what lies outside of the samples is the first
// or the last of them.
func readAt(samples []measurement.HopSample, x float64) measurement.HopSample {
	i, exact := slices.BinarySearchFunc(samples, x, func(s measurement.HopSample, x float64) int { return cmp.Compare(float64(s.At), x) })
	switch {
	case exact:
		return samples[i]
	case i == 0:
		return samples[0]
	case i == len(samples):
		return samples[i-1]
	}
	a, b := samples[i-1], samples[i]
	part := (x - float64(a.At)) / float64(b.At-a.At)
	mixed := a
	mixed.Combine(b, func(from, to float64) float64 { return from + (to-from)*part })
	return mixed
}

// Payload is how many bytes above the headers the hop counted between two
// moments, in each direction.
func (w watched) Payload(from, to float64, f Framing) (forward, backward float64) {
	a, b := w.at(from), w.at(to)
	forward = f.payload(b.ForwardBytes-a.ForwardBytes, b.ForwardPackets-a.ForwardPackets)
	backward = f.payload(b.BackwardBytes-a.BackwardBytes, b.BackwardPackets-a.BackwardPackets)
	return forward, backward
}

// Framing is how the payload of a test is packed.
type Framing struct {
	Headers int // bytes of each packet at layer 2
	Payload int // bytes of a full packet, 0 where that is not known
}

// payload is the part of a hop's bytes above the headers. Of a hop that counts no
// packets all are taken to be full.
func (f Framing) payload(bytes, packets float64) float64 {
	if packets == 0 && f.Payload > 0 {
		return max(bytes*float64(f.Payload)/float64(f.Payload+f.Headers), 0)
	}
	return max(bytes-float64(f.Headers)*packets, 0)
}

// FramingOf is that of a trial.
func FramingOf(t *measurement.Trial, spec measurement.Spec, tunnel string) Framing {
	out := Framing{Headers: ethernetHeader + udpHeaders, Payload: spec.PacketBytes}
	if k, _ := kind.Of(spec.Kind); !k.Datagrams {
		out.Headers = ethernetHeader + tcpHeaders
		for _, f := range t.Flows {
			if f.Final == nil || f.Final.MSS <= 0 {
				continue
			}
			out.Payload = int(f.Final.MSS)
			if f.Final.PathMTU-f.Final.MSS >= 40 && f.Final.PathMTU-f.Final.MSS <= 80 {
				out.Headers = ethernetHeader + int(f.Final.PathMTU-f.Final.MSS)
				break
			}
		}
	}
	if strings.HasPrefix(tunnel, "vxlan") {
		out.Headers += vxlanHeaders
	}
	return out
}

// span is the part of a trial's measured window that both the first hop's
// samples and the receivers' bins cover, as whole samples; ok is false when
// that is less than half of it.
func (w watched) span(t *measurement.Trial) (from, to float64, ok bool) {
	opens, ends := float64(t.Warmup), float64(t.Throughput.Width)*float64(len(t.Throughput.Bytes))
	from, to = ends, opens
	for _, s := range w.Series[0].Samples {
		if at := float64(s.At); at >= opens && at <= ends {
			from, to = min(from, at), max(to, at)
		}
	}
	return from, to, to-from >= (ends-opens)/2 && to > from
}

// leastGrains is how often a hop's source has to count in the measured time of a trial for
// the two to be compared.
const leastGrains = 3

// coarse says whether a hop's source counts too rarely for a trial, and the grain of it.
func (w watched) coarse(t *measurement.Trial) (grain float64, coarse bool) {
	grain = w.grain()
	measured := float64(t.Throughput.Width)*float64(len(t.Throughput.Bytes)) - float64(t.Warmup)
	return grain, leastGrains*grain > measured
}

// Confirmed is what the receivers' bins hold between two moments.
func Confirmed(b *measurement.Bins, from, to float64) float64 {
	var sum float64
	width := float64(b.Width)
	for i, n := range b.Bytes {
		opens := float64(i) * width
		if part := min(to, opens+width) - max(from, opens); part > 0 {
			sum += n * part / width
		}
	}
	return sum
}

// backwardShare is which part of what the receivers confirmed went from the
// destination to the source.
func backwardShare(t *measurement.Trial, spec measurement.Spec) float64 {
	switch spec.Direction {
	case measurement.Receive:
		return 1
	case measurement.Both:
		return measurement.ReverseShare(t.Flows)
	}
	return 0
}

// underWay is by how many bytes the flows of one direction had more under way at
// a moment than at an earlier one: sent, and not yet acknowledged. What waits in a
// queue that grows has passed the hops before it and reached no receiver. It is 0
// where a sender's series does not tell.
func underWay(t *measurement.Trial, spec measurement.Spec, back bool, from, to float64) (sum float64) {
	for _, f := range t.Flows {
		if reverse := f.Reverse || spec.Direction == measurement.Receive; reverse != back || len(f.Info) < 2 {
			continue
		}
		sum += inFlight(f.Info, to) - inFlight(f.Info, from)
	}
	return sum
}

// inFlight is what a flow had under way at a moment, between two samples by a
// straight line.
func inFlight(info []measurement.TCPInfo, x float64) float64 {
	at, bytes := make([]float64, len(info)), make([]float64, len(info))
	for i, s := range info {
		at[i], bytes[i] = float64(s.At), float64(s.InFlight)
	}
	return sampling.Interpolate(at, bytes, x)
}

// compareHop says whether a hop does not agree with the receivers in a trial within a
// fraction, and whether a queue that grew or shrank would be reason enough.
func compareHop(difference, queued, within float64) (apart, explained bool) {
	if math.Abs(difference) <= within {
		return false, false
	}
	return true, difference*queued > 0 && math.Abs(difference-queued) <= within
}

// grain is how far apart the moments are at which the hop's source counts, in seconds.
func (w watched) grain() (most float64) {
	for _, s := range w.Series {
		if g := float64(s.Grain); g > most && g < math.Inf(1) {
			most = g
		}
	}
	return most
}

// checkHops compares what the hops counted with what the receivers confirmed. What is sent
// back passes by the hops of one way.
func checkHops(trials []*measurement.Trial, spec measurement.Spec, tunnel string, oneWay []string) []words.HopCheck {
	var out []words.HopCheck
	of := func(hop string, back bool) *words.HopCheck {
		i := slices.IndexFunc(out, func(c words.HopCheck) bool { return c.Hop == hop && c.Reverse == back })
		if i < 0 {
			i, out = len(out), append(out, words.HopCheck{Hop: hop, Reverse: back})
		}
		return &out[i]
	}
	// queued is how much more the senders had in flight, which may be why and
	// excuses nothing.
	note := func(c *words.HopCheck, difference, queued, grain, within float64) {
		c.Differences = append(c.Differences, difference)
		if grain > 0 {
			c.Grain, c.Within = max(c.Grain, grain), max(c.Within, within)
		}
		if apart, explained := compareHop(difference, queued, within); apart {
			c.Apart++
			if explained {
				c.Queued++
			}
		}
	}
	for _, t := range trials {
		back := backwardShare(t, spec)
		for _, w := range WatchedHops(t) {
			grain, coarse := w.coarse(t)
			if coarse {
				c := of(w.Label(), back > 0.5)
				c.Grain, c.TooShort = max(c.Grain, grain), c.TooShort+1
				continue
			}
			from, to, ok := w.span(t)
			if !ok {
				continue
			}
			within := hopsAgree + grain/(to-from)
			forward, backward := w.Payload(from, to, FramingOf(t, spec, tunnel))
			ends := Confirmed(t.Throughput, from, to)
			counts := w.countsPackets() // else what is 0 may have no counter
			if there := ends * (1 - back); there > 0 && (counts || forward > 0) {
				note(of(w.Label(), false), forward/there-1, underWay(t, spec, false, from, to)/there, grain, within)
			}
			if here := ends * back; here > 0 && (counts || backward > 0) && !slices.Contains(oneWay, w.name) {
				note(of(w.Label(), true), backward/here-1, underWay(t, spec, true, from, to)/here, grain, within)
			}
		}
	}
	return out
}

// hopSections are those of every test of throughput on every path whose hops
// were watched, and a sentence on those that are left out.
func (m *Model) hopSections() (out []hopSection, others string) {
	more := 0
	for _, t := range m.Tests {
		for _, p := range m.Paths {
			trials := m.WatchedTrials(p, t)
			if len(trials) == 0 {
				continue
			}
			if len(out) == maxHopSections {
				more++
				continue
			}
			s := hopSection{Path: p.Label, Test: t.Label, Sentences: words.HopAgreement(checkHops(trials, t.Spec, p.Tunnel(), p.oneWay()), hopsAgree)}
			if said := m.processorSentence(p, t, trials); said != "" {
				s.Sentences = append(s.Sentences, said)
			}
			s.Headers = FramingOf(trials[0], t.Spec, p.Tunnel()).Headers
			s.Medians = hopMedians(trials)
			out = append(out, s)
		}
	}
	if more > 0 {
		others = "What hops counted in " + quantity.Count(more, "more test") + " on paths is in result.json alone."
	}
	return out, others
}

// Tunnel is what a path's Info says of one.
func (p Path) Tunnel() string {
	if p.Info == nil {
		return ""
	}
	return p.Info.Tunnel
}

// oneWay are the hops that the way back bypasses.
func (p Path) oneWay() (names []string) {
	if p.Info != nil {
		for _, h := range p.Info.Hops {
			if h.Parameters["one_way"] == "true" {
				names = append(names, h.Name)
			}
		}
	}
	return names
}

// WatchedTrials are the trials that count of a test of throughput on a path,
// and of whose hops there is something to show.
func (m *Model) WatchedTrials(p Path, t Test) []*measurement.Trial {
	return slices.DeleteFunc(m.Counted(p, t), func(trial *measurement.Trial) bool {
		return trial.Throughput == nil || trial.Throughput.Width <= 0 || len(WatchedHops(trial)) == 0
	})
}

// counted is a counter of all instances at the end of a trial; of a size, the sum of
// the largest of each.
func counted(c measurement.HopCounter, w watched) (sum float64, known bool) {
	for _, s := range w.Series {
		if !c.Size {
			sum += *c.Of(&s.Samples[len(s.Samples)-1])
			continue
		}
		var most float64
		for _, sample := range s.Samples {
			if size := c.Of(&sample); size != nil {
				most, known = max(most, *size), true
			}
		}
		sum += most
	}
	return sum, known || sum != 0
}

// countsPackets says that a hop counts packets: a source that counts bytes alone may have no
// counter of what is 0, either.
func (w watched) countsPackets() bool {
	end := w.at(math.Inf(1))
	return end.ForwardPackets+end.BackwardPackets > 0 || end.ForwardBytes+end.BackwardBytes == 0
}

// hopMedians are those of every counter that some hop has.
func hopMedians(trials []*measurement.Trial) Medians {
	var labels []string
	byHop := map[string][]watched{}
	for _, t := range trials {
		for _, w := range WatchedHops(t) {
			if byHop[w.Label()] == nil {
				labels = append(labels, w.Label())
			}
			byHop[w.Label()] = append(byHop[w.Label()], w)
		}
	}
	out := Medians{Of: "hop"}
	for _, label := range labels {
		out.Rows = append(out.Rows, medianRow{Name: label})
	}
	for _, c := range measurement.HopCounters() {
		column := make([]string, len(labels))
		shown := false
		for i, label := range labels {
			var values []float64
			has := c.Always && slices.ContainsFunc(byHop[label], watched.countsPackets) // what a hop has in one trial, it has in all, be it 0
			for _, w := range byHop[label] {
				v, known := counted(c, w)
				if has = has || known; known || !c.Size {
					values = append(values, v)
				}
			}
			column[i] = words.None
			if has {
				middle := statistics.Median(values)
				if c.Unit == measurement.Count {
					middle = math.Round(middle) // no half packets
				}
				column[i], shown = words.Value(middle, c.Unit), true
			}
		}
		if !shown {
			continue
		}
		out.Columns = append(out.Columns, c.Title)
		for i := range out.Rows {
			out.Rows[i].Values = append(out.Rows[i].Values, column[i])
		}
	}
	return out
}
