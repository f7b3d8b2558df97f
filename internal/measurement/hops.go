package measurement

import "math"

// HopSeries is what one hop of a path counted during a trial.
type HopSeries struct {
	// Name of the hop in the experiment; link emulators in a row that a path begins with
	// are one.
	Name string `json:"name"`
	// Instance is counted from 1 where the hop has several, else 0.
	Instance int `json:"instance,omitempty"`
	// Parts are the hops that do what is counted here.
	Parts HopParts `json:"parts,omitzero"`
	// Grain is how far apart the moments are at which the hop's source counts, 0 where it
	// does when it is asked. A sample may be that much older than its At says.
	Grain   Seconds     `json:"grain_seconds,omitempty"`
	Samples []HopSample `json:"samples"` // in the order of time
}

// HopParts names the hops that do what one hop's counters count, where that is not the hop
// alone: in a lab, link emulators behind a hop are one process with it. Names of several are
// joined; what is empty is of the hop itself.
type HopParts struct {
	Rate       string `json:"rate,omitempty"` // the slowest, which rules
	FlowRate   string `json:"flow_rate,omitempty"`
	Losses     string `json:"losses,omitempty"` // other than of a full queue
	Reordering string `json:"reordering,omitempty"`
	Process    string `json:"process,omitempty"`
}

// HopSample is a reading of a hop's counters. All but Connections are totals
// since the trial began. A counter that the hop does not have is absent.
type HopSample struct {
	// At is on the axis of Outcome.Throughput: since Outcome.Started. The first
	// sample may lie before it.
	At Seconds `json:"at_seconds"`
	// Forward is towards the destination. Bytes are of layer 2, without the
	// frame check sequence, as the kernel's interfaces count.
	ForwardBytes    float64 `json:"forward_bytes"`
	ForwardPackets  float64 `json:"forward_packets"`
	BackwardBytes   float64 `json:"backward_bytes"`
	BackwardPackets float64 `json:"backward_packets"`
	DroppedPackets  float64 `json:"dropped_packets,omitempty"`
	// Of the dropped packets: those that did not fit the queue of the hop's
	// rate, or that of their flow's rate, and those that were lost on its wire.
	// A packet may be a large one that offloading has not cut yet.
	QueueDroppedPackets     float64 `json:"queue_dropped_packets,omitempty"`
	FlowQueueDroppedPackets float64 `json:"flow_queue_dropped_packets,omitempty"`
	LostPackets             float64 `json:"lost_packets,omitempty"`
	// ReorderedPackets were overtaken by a later one in the hop.
	ReorderedPackets float64 `json:"reordered_packets,omitempty"`
	// ForwardBusy is how long the hop was sending towards the destination at its
	// rate: all of the time means that the rate is used up. ForwardFlowBusy is the
	// same of the rate that each flow has, added up over the flows.
	ForwardBusy      Seconds `json:"forward_busy_seconds,omitempty"`
	BackwardBusy     Seconds `json:"backward_busy_seconds,omitempty"`
	ForwardFlowBusy  Seconds `json:"forward_flow_busy_seconds,omitempty"`
	BackwardFlowBusy Seconds `json:"backward_flow_busy_seconds,omitempty"`
	// ForwardThread is how long the thread of the hop's process that carries this
	// direction ran or waited for a CPU.
	ForwardThread  Seconds `json:"forward_thread_seconds,omitempty"`
	BackwardThread Seconds `json:"backward_thread_seconds,omitempty"`
	// CPU is the CPU time of the hop's own process, less what the kernel
	// did meanwhile with the frames that it handed to the nodes at its ends;
	// absent for hops without a process. Of an appliance with an agent it is that of the
	// whole host outside of soft interrupts.
	CPU Seconds `json:"cpu_seconds,omitempty"`
	// KernelCPU is the CPU time of the kernel's work on packets in the hop's
	// node: filtering, tracking, translating, forwarding. It is estimated from a
	// random sample of the packets, and absent where the kernel cannot tell; of the
	// instances that one node is, the first has it. Of an appliance with an agent it is that
	// of its soft interrupts.
	KernelCPU Seconds `json:"kernel_cpu_seconds,omitempty"`
	// SoftnetSqueezes is how often an appliance with an agent stopped receiving with packets
	// left to receive (/proc/net/softnet_stat).
	SoftnetSqueezes float64 `json:"softnet_squeezes_count,omitempty"`
	// Connections is the size of the connection table, nil where there is none.
	Connections *float64 `json:"connections,omitempty"`
	// Alerts are flows that matched a rule of an idps, Denied those that it
	// dropped for it.
	Alerts float64 `json:"alerts,omitempty"`
	Denied float64 `json:"denied,omitempty"`
}

// HopCounter is one of the counters of a HopSample.
type HopCounter struct {
	Title string
	Unit  Unit
	// Always marks one that is shown although no hop counted anything.
	Always bool
	// Size marks what is not a total: the size of something at that moment.
	Size bool
	// Of is where the sample has it, nil where the hop has none.
	Of func(*HopSample) *float64
}

// HopCounters are all of them, in the order of reports.
func HopCounters() []HopCounter {
	return []HopCounter{
		{Title: "to the destination", Unit: Bytes, Always: true, Of: func(s *HopSample) *float64 { return &s.ForwardBytes }},
		{Title: "packets", Unit: Count, Always: true, Of: func(s *HopSample) *float64 { return &s.ForwardPackets }},
		{Title: "to the source", Unit: Bytes, Always: true, Of: func(s *HopSample) *float64 { return &s.BackwardBytes }},
		{Title: "packets", Unit: Count, Always: true, Of: func(s *HopSample) *float64 { return &s.BackwardPackets }},
		{Title: "dropped", Unit: Count, Always: true, Of: func(s *HopSample) *float64 { return &s.DroppedPackets }},
		{Title: "of them: queue full", Unit: Count, Of: func(s *HopSample) *float64 { return &s.QueueDroppedPackets }},
		{Title: "of them: flow's queue full", Unit: Count, Of: func(s *HopSample) *float64 { return &s.FlowQueueDroppedPackets }},
		{Title: "of them: lost on the wire", Unit: Count, Of: func(s *HopSample) *float64 { return &s.LostPackets }},
		{Title: "reordered", Unit: Count, Of: func(s *HopSample) *float64 { return &s.ReorderedPackets }},
		{Title: "sending at its rate, to the destination", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.ForwardBusy) }},
		{Title: "to the source", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.BackwardBusy) }},
		{Title: "sending at its flows' rates, to the destination", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.ForwardFlowBusy) }},
		{Title: "to the source", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.BackwardFlowBusy) }},
		{Title: "its thread, to the destination", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.ForwardThread) }},
		{Title: "to the source", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.BackwardThread) }},
		{Title: "stopped receiving too early", Unit: Count, Of: func(s *HopSample) *float64 { return &s.SoftnetSqueezes }},
		{Title: "connections at most", Unit: Count, Size: true, Of: func(s *HopSample) *float64 { return s.Connections }},
		{Title: "alerts", Unit: Count, Of: func(s *HopSample) *float64 { return &s.Alerts }},
		{Title: "flows denied", Unit: Count, Of: func(s *HopSample) *float64 { return &s.Denied }},
		{Title: "CPU of its process", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.CPU) }},
		{Title: "CPU of the kernel in it", Unit: SecondsUnit, Of: func(s *HopSample) *float64 { return (*float64)(&s.KernelCPU) }},
	}
}

// Combine applies of to each total of s and that of other, and keeps the result in s.
func (s *HopSample) Combine(other HopSample, of func(own, other float64) float64) {
	for _, c := range HopCounters() {
		if !c.Size {
			*c.Of(s) = of(*c.Of(s), *c.Of(&other))
		}
	}
}

// Since is s with its totals since those of first; sizes stay as they are. What is a
// difference with an estimate may overlap by a few readings.
func (s HopSample) Since(first HopSample) HopSample {
	s.Combine(first, func(own, before float64) float64 { return max(own-before, 0) })
	return s
}

// CPUSample is a reading of what all CPUs of a machine together have spent
// since the first reading.
type CPUSample struct {
	// At is on the axis of Outcome.Throughput, as that of a HopSample.
	At Seconds `json:"at_seconds"`
	// Busy is what was not idle; SoftIRQ the part of it in soft interrupts, where
	// the kernel forwards packets and also receives them for the endpoints.
	Busy    Seconds `json:"busy_seconds"`
	SoftIRQ Seconds `json:"softirq_seconds"`
}

// Pair is what one pair of endpoints brought back of a test that several did
// at the same time.
type Pair struct {
	Source      string  `json:"source"`      // name of the endpoint
	Destination string  `json:"destination"` // likewise
	Metrics     Metrics `json:"metrics"`
	// Error is why the pair brought nothing back, empty when it did.
	Error string `json:"error,omitempty"`
	// Failure is the reason of Error, as that of a Finding.
	Failure string `json:"failure,omitempty"`
	// Throughput is the receiver's count from the pair's own start, in bins
	// that may be wider than those of Outcome.Throughput.
	Throughput *Bins `json:"throughput,omitempty"`
	// Delay is how much later than Outcome.Started this pair started.
	Delay Seconds `json:"delay_seconds,omitempty"`
	// PlannedDelay is how much later than the first pair the test had it start.
	PlannedDelay Seconds `json:"planned_delay_seconds,omitempty"`
	// RTT is the mean TCP round-trip time of the pair's flows over time, from
	// the pair's own start.
	RTT []PairRTT `json:"rtt,omitempty"`
	// Hops is what the pair's trace saw.
	Hops []TraceHop `json:"hops,omitempty"`
	// OneWay is how the one-way delays of the pair were found, as Outcome.OneWay.
	OneWay *OneWay `json:"one_way,omitempty"`
}

// StartOfSeat is how much later than the first pair the pair of a seat, counted from 1, started: as
// planned where it brought nothing, which would say when, and 0 where there is no such pair.
func StartOfSeat(pairs []Pair, seat int) Seconds {
	if seat < 1 || seat > len(pairs) {
		return 0
	}
	if p := pairs[seat-1]; p.Error == "" {
		return p.Delay
	}
	return pairs[seat-1].PlannedDelay
}

// StartSpread is how far apart pairs started, beyond what was planned: the latest against
// the earliest, each compared with its own turn. Those that brought nothing are left out.
func StartSpread(pairs []Pair) Seconds {
	least, most := Seconds(math.Inf(1)), Seconds(math.Inf(-1))
	for _, p := range pairs {
		if p.Error == "" {
			late := p.Delay - p.PlannedDelay
			least, most = min(least, late), max(most, late)
		}
	}
	return max(most-least, 0) // of none it is -Inf
}

// PairRTT is the mean of the round-trip times that the kernel kept for the
// flows of a pair at a moment.
type PairRTT struct {
	At  Seconds `json:"at_seconds"`
	RTT Seconds `json:"rtt_seconds"`
}
