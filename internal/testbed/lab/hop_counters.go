package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Bounds of how often the counters of hops are read during a trial.
const (
	leastHopInterval = 100 * time.Millisecond
	// A reading wakes this process, the one that keeps the namespaces and the monitors of
	// both for some milliseconds, in which a round trip takes longer.
	leastAnswersInterval = time.Second
	hopReadings          = 100 // of a trial that takes as long as it should
)

// hopInterval is how often they are read in a trial of that test.
func hopInterval(spec measurement.Spec) time.Duration {
	least := leastHopInterval
	if k, _ := kind.Of(spec.Kind); k.TimesAnswers() {
		least = leastAnswersInterval
	}
	return max(least, spec.ExpectedDuration().Duration()/hopReadings)
}

// readCounters reads those of some nodes of a lab.
type readCounters func(ctx context.Context, nodes ...string) (lab.Counters, error)

// readCPU reads what the CPUs of this machine have spent.
type readCPU func() (hostinfo.CPUTimes, error)

// cpuReading is one of them and its time.
type cpuReading struct {
	at    time.Time
	times hostinfo.CPUTimes
}

// hopWatch reads the counters of a path's hops until it is ended.
type hopWatch struct {
	read     readCounters
	hops     []lab.HopNode
	host     string // the source; it is no hop, only its interface to one
	nodes    []string
	stop     context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex // of readings, until the watch has ended
	readings []lab.Counters
	cpu      readCPU
	spent    []cpuReading
	err      error // of the first reading that failed
}

// watchHops takes the first reading at once and then one in every interval,
// until ctx ends or the watch does. A path that is a plain link is not watched.
func watchHops(ctx context.Context, read readCounters, cpu readCPU, path lab.Path, interval time.Duration) *hopWatch {
	w := &hopWatch{read: read, cpu: cpu, hops: path.Watched(), host: path.SourceNode}
	for _, h := range w.hops {
		w.nodes = append(w.nodes, h.At(w.host)...)
	}
	ctx, w.stop = context.WithCancel(ctx)
	if len(w.hops) == 0 {
		return w
	}
	w.take(ctx)
	w.running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.take(ctx)
			}
		}
	})
	return w
}

// take adds a reading, unless one has failed before.
func (w *hopWatch) take(ctx context.Context) {
	if w.err != nil || ctx.Err() != nil {
		return
	}
	counters, err := w.read(ctx, w.nodes...)
	if err != nil {
		if ctx.Err() == nil {
			w.err = err
		}
		return
	}
	w.mu.Lock()
	w.readings = append(w.readings, counters)
	w.mu.Unlock()
	if times, err := w.cpu(); err == nil { // what a system cannot tell is absent
		w.spent = append(w.spent, cpuReading{time.Now(), times})
	}
}

// end ends the watch with a last reading and adds what it saw to the outcome.
// A test without a moment at which it started has no series.
func (w *hopWatch) end(ctx context.Context, o *measurement.Outcome) {
	w.stop()
	w.running.Wait()
	if len(w.hops) == 0 || o.Started.IsZero() {
		return
	}
	w.take(ctx)
	if w.err != nil {
		o.Facts = append(o.Facts, fmt.Sprintf("the counters of the hops could not be read to the end: %v", w.err))
	}
	if len(w.readings) > 1 {
		o.HopSeries = w.series(w.readings, o.Started)
		o.LabCPU = w.labCPU(o.Started)
	}
}

// now is the last reading hop by hop, as totals since the first.
func (w *hopWatch) now() []measurement.HopSeries {
	w.mu.Lock()
	n := len(w.readings)
	if n < 2 {
		w.mu.Unlock()
		return nil
	}
	ends := []lab.Counters{w.readings[0], w.readings[n-1]}
	w.mu.Unlock()
	out := w.series(ends, time.Now())
	for i, s := range out {
		out[i].Samples = s.Samples[max(0, len(s.Samples)-1):]
	}
	return out
}

// series are readings hop by hop, as totals since the first.
func (w *hopWatch) series(readings []lab.Counters, started time.Time) []measurement.HopSeries {
	out := make([]measurement.HopSeries, len(w.hops))
	for i, h := range w.hops {
		out[i] = measurement.HopSeries{Name: h.Hop, Instance: h.Instance, Parts: h.Parts}
		again := slices.ContainsFunc(w.hops[:i], func(other lab.HopNode) bool { return other.Node == h.Node })
		var first measurement.HopSample
		for _, reading := range readings {
			if again {
				reading = told(reading, h)
			}
			s, ok := hopSample(h, h.Node == w.host, reading, started)
			if !ok {
				continue
			}
			if len(out[i].Samples) == 0 {
				first = s
			}
			out[i].Samples = append(out[i].Samples, s.Since(first))
		}
	}
	return out
}

// labCPU are the readings of the CPUs, as totals since the first.
func (w *hopWatch) labCPU(started time.Time) []measurement.CPUSample {
	out := make([]measurement.CPUSample, len(w.spent))
	for i, r := range w.spent {
		first := w.spent[0].times
		out[i] = measurement.CPUSample{
			At:      measurement.SecondsOf(r.at.Sub(started)),
			Busy:    measurement.SecondsOf(r.times.Busy - first.Busy),
			SoftIRQ: measurement.SecondsOf(r.times.SoftIRQ - first.SoftIRQ),
		}
	}
	return out
}

// hopSample is what a reading says of one hop, in totals since the lab began.
// atHost says that the hop is a link that begins at the source.
func hopSample(h lab.HopNode, atHost bool, reading lab.Counters, started time.Time) (s measurement.HopSample, ok bool) {
	for _, r := range h.Returns { // meters of the hop's rate towards the source, at the node behind it
		i, _ := interfaceOf(reading, r.Node, r.Interface)
		s.DroppedPackets += float64(i.EgressDropped)
		s.QueueDroppedPackets += float64(i.EgressDropped)
		s.BackwardBusy += measurement.SecondsOf(i.EgressBusy)
	}
	for _, e := range h.Ends { // far ends of the hop's link
		i, _ := interfaceOf(reading, e.Node, e.Interface)
		s.DroppedPackets += float64(i.ReceivedDropped + i.SentDropped)
	}
	for _, n := range reading.Nodes {
		if n.Node != h.Node {
			continue
		}
		ok = true
		s.At = measurement.SecondsOf(n.Read.Sub(started))
		if atHost {
			n = lineOf(n, h, reading)
		}
		addNode(&s, n, h.Leads)
	}
	for _, c := range reading.Links {
		if c.A.Node == h.Node && h.Leads(c.A.Interface) {
			addLink(&s, c)
		}
	}
	return s, ok
}

// told leaves of a reading what is of one link of a hop alone: the links to the back ends of
// a balancer begin at one node, whose work, drops and connections the first of them has.
func told(reading lab.Counters, h lab.HopNode) lab.Counters {
	reading.Nodes = slices.Clone(reading.Nodes)
	for i, n := range reading.Nodes {
		if n.Node != h.Node {
			continue
		}
		n.Functions, n.Interfaces = measurement.HopSample{}, slices.Clone(n.Interfaces)
		for j := range n.Interfaces {
			n.Interfaces[j].ReceivedDropped, n.Interfaces[j].SentDropped = 0, 0
		}
		reading.Nodes[i] = n
	}
	return reading
}

// lineOf leaves of a host's counters those of the interfaces that lead onto a
// link, or of the devices by which that leaves. What the meter of its egress dropped is the
// host's loss, not the link's.
func lineOf(host lab.NodeCounters, h lab.HopNode, reading lab.Counters) lab.NodeCounters {
	out := lab.NodeCounters{Node: host.Node, Read: host.Read}
	for _, i := range host.Interfaces {
		if h.Leads(i.Name) {
			// Where the machine could not make the device, those of the interface itself.
			if d, there := interfaceOf(reading, h.Devices[i.Name].Node, h.Devices[i.Name].Interface); there {
				d.Name = i.Name
				i = d
			}
			i.EgressDropped, i.EgressBusy = 0, 0
			out.Interfaces = append(out.Interfaces, i)
		}
	}
	return out
}

// interfaceOf is what a reading has of an interface of a node.
func interfaceOf(reading lab.Counters, node, name string) (counted lab.InterfaceCounters, there bool) {
	for _, n := range reading.Nodes {
		for _, i := range n.Interfaces {
			if n.Node == node && i.Name == name {
				return i, true
			}
		}
	}
	return counted, false
}

// addNode adds what the kernel counts of a node, some of whose interfaces lead
// to the destination. A meter towards the source is another hop's.
func addNode(s *measurement.HopSample, n lab.NodeCounters, leads func(name string) bool) {
	s.Combine(n.Functions, func(own, counted float64) float64 { return own + counted })
	s.Connections = n.Functions.Connections
	for _, i := range n.Interfaces {
		s.DroppedPackets += float64(i.ReceivedDropped + i.SentDropped)
		if leads(i.Name) {
			s.DroppedPackets += float64(i.EgressDropped)
			s.QueueDroppedPackets += float64(i.EgressDropped)
			s.ForwardBusy += measurement.SecondsOf(i.EgressBusy)
			s.ForwardBytes += float64(i.SentBytes)
			s.ForwardPackets += float64(i.SentPackets)
			s.BackwardBytes += float64(i.ReceivedBytes)
			s.BackwardPackets += float64(i.ReceivedPackets)
		}
	}
}

// addLink adds what the process counts that is a link behind a node. What it could not
// read of a TAP device is among the drops of that interface.
func addLink(s *measurement.HopSample, c lab.LinkCounters) {
	s.CPU += measurement.SecondsOf(c.CPU - c.Forward.HandOverCPU - c.Backward.HandOverCPU)
	for _, d := range []linkem.DirectionCounters{c.Forward, c.Backward} {
		s.DroppedPackets += float64(d.LostFrames + d.QueueDroppedFrames + d.RefusedFrames + d.OverrunFrames)
		s.QueueDroppedPackets += float64(d.QueueDroppedFrames - d.FlowDroppedFrames)
		s.FlowQueueDroppedPackets += float64(d.FlowDroppedFrames)
		s.LostPackets += float64(d.LostFrames)
		s.ReorderedPackets += float64(d.ReorderedFrames)
	}
	s.ForwardBusy += measurement.SecondsOf(c.Forward.Busy)
	s.BackwardBusy += measurement.SecondsOf(c.Backward.Busy)
	s.ForwardFlowBusy += measurement.SecondsOf(c.Forward.FlowBusy)
	s.BackwardFlowBusy += measurement.SecondsOf(c.Backward.FlowBusy)
	s.ForwardThread += measurement.SecondsOf(c.Forward.Thread)
	s.BackwardThread += measurement.SecondsOf(c.Backward.Thread)
	if c.IDPS != nil {
		s.Alerts += float64(c.IDPS.AlertedFlows)
		s.Denied += float64(c.IDPS.DeniedFlows)
	}
}
