package measurement

import (
	"math"
	"strconv"
	"time"
)

// Metrics maps a metric's name, which ends in its unit, to its value. The
// names are those of Catalogue.
type Metrics map[string]float64

// Outcome is everything one test brought back from both ends.
type Outcome struct {
	Metrics Metrics `json:"metrics"`

	// Warmup is the start that was discarded; WarmupSteady says that the
	// steadiness test ended it, not its upper bound.
	Warmup       Seconds `json:"warmup_seconds"`
	WarmupSteady bool    `json:"warmup_steady,omitempty"`

	// Throughput is the receiver's count in equal bins from the very start,
	// warm-up included, all flows together.
	Throughput *Bins  `json:"throughput,omitempty"`
	Flows      []Flow `json:"flows,omitempty"`
	// Latency is the distribution of an rr, ping or crr (whole transactions)
	// test and, under load, of a load test; IdleLatency that of a load test
	// before the load.
	Latency     *Distribution `json:"latency,omitempty"`
	IdleLatency *Distribution `json:"idle_latency,omitempty"`
	// Started is when the first flow was started, warm-up included, by the
	// source's clock; the zero time where the kind has no such moment.
	Started time.Time `json:"started,omitzero"`
	// HopSeries are what the hops of the path counted meanwhile, in the order
	// of the path.
	HopSeries []HopSeries `json:"hop_series,omitempty"`
	// LabCPU is the CPU time of the machine that both endpoints and all hops of a
	// lab share, read with the hops' counters. Hops without a KernelCPU of their
	// own are in it, too.
	LabCPU []CPUSample `json:"lab_cpu,omitempty"`
	// Pairs are what each of several pairs of endpoints brought back that did
	// the test at the same time; the Outcome itself is then all of them together.
	Pairs []Pair `json:"pairs,omitempty"`
	// LossSearch is how a search for the highest rate went, step by step.
	LossSearch []LossStep `json:"loss_search,omitempty"`
	// OneWay is how the one-way delays of a udp or pps test were found between ends that
	// have no clock in common.
	OneWay *OneWay `json:"one_way,omitempty"`
	// Hops is what a trace saw.
	Hops []TraceHop `json:"hops,omitempty"`

	Source      End `json:"source"`
	Destination End `json:"destination"`

	// Effective is what was really done where that may differ from what was
	// asked: congestion control, MSS, buffer sizes, zero-copy or not, kind of
	// socket used by ping. Keys are snake case with units.
	Effective map[string]string `json:"effective,omitempty"`
	// Facts are sentences a reader of the result must know: a lost fast path,
	// a clamped buffer, a warm-up that never became steady.
	Facts []string `json:"facts,omitempty"`
}

// Bins is a count in equal, adjacent bins of time.
type Bins struct {
	Width Seconds   `json:"width_seconds"`
	Bytes []float64 `json:"bytes"`
}

// LossStep is one step of a search for the highest rate under a bound of loss.
type LossStep struct {
	OfferedBitsPerSecond  float64 `json:"offered_bits_per_second"`
	ReceivedBitsPerSecond float64 `json:"received_bits_per_second"`
	Loss                  float64 `json:"loss_fraction"`
	// Packets were sent in the step's measured time.
	Packets int64 `json:"packets"`
}

// Flow is one connection of a throughput test.
type Flow struct {
	// Reverse marks a flow from the destination to the source in a test of
	// both directions.
	Reverse     bool   `json:"reverse,omitempty"`
	Source      string `json:"source"`      // address:port at the source
	Destination string `json:"destination"` // address:port at the destination, after NAT if there is any
	// ReceivedBytes counts inside the measured window, at the receiver; of packets,
	// those sent in it.
	// SentBytes is the sender's count, shown but never used for a metric.
	ReceivedBytes int64 `json:"received_bytes"`
	SentBytes     int64 `json:"sent_bytes"`

	// Final is the sender's TCP_INFO at the end, Info its series.
	Final *TCPInfo  `json:"final,omitempty"`
	Info  []TCPInfo `json:"info,omitempty"`
	// Receiver is the series of the receiving end.
	Receiver []ReceiverInfo `json:"receiver,omitempty"`
}

// ReceivedBytes is what the receivers of flows confirmed together.
func ReceivedBytes(flows []Flow) (sum int64) {
	for _, f := range flows {
		sum += f.ReceivedBytes
	}
	return sum
}

// ReverseShare is which part of that went from the destination to the source; 0 where
// nothing was confirmed.
func ReverseShare(flows []Flow) float64 {
	var reverse int64
	for _, f := range flows {
		if f.Reverse {
			reverse += f.ReceivedBytes
		}
	}
	return float64(reverse) / float64(max(ReceivedBytes(flows), 1))
}

// TCPInfo is a sample of the kernel's struct tcp_info (linux/tcp.h) of one
// sending socket, in base units. A field the kernel did not report is absent.
type TCPInfo struct {
	At               Seconds `json:"at_seconds"` // since the flow started
	RTT              Seconds `json:"rtt_seconds,omitempty"`
	RTTVariation     Seconds `json:"rtt_variation_seconds,omitempty"`
	MinRTT           Seconds `json:"min_rtt_seconds,omitempty"`
	CongestionWindow int64   `json:"congestion_window_bytes,omitempty"`
	SendWindow       int64   `json:"send_window_bytes,omitempty"` // the peer's advertised window
	MSS              int64   `json:"mss_bytes,omitempty"`
	PathMTU          int64   `json:"path_mtu_bytes,omitempty"`
	PacingRate       float64 `json:"pacing_rate_bits_per_second,omitempty"`
	DeliveryRate     float64 `json:"delivery_rate_bits_per_second,omitempty"`
	Retransmits      int64   `json:"retransmitted_segments,omitempty"` // total since the flow started
	// SentBytes and RetransmittedBytes are totals since the flow started, the
	// former with the latter in it (tcpi_bytes_sent, tcpi_bytes_retrans).
	SentBytes          int64   `json:"sent_bytes,omitempty"`
	RetransmittedBytes int64   `json:"retransmitted_bytes,omitempty"`
	InFlight           int64   `json:"in_flight_bytes,omitempty"`
	Busy               Seconds `json:"busy_seconds,omitempty"`
	ReceiveWindowTime  Seconds `json:"receive_window_limited_seconds,omitempty"`
	SendBufferTime     Seconds `json:"send_buffer_limited_seconds,omitempty"`
	// ApplicationLimited says that what was measured last was bounded by what the
	// program had written (tcpi_delivery_rate_app_limited); NotSent is what the
	// program has written that was never sent (tcpi_notsent_bytes).
	ApplicationLimited bool  `json:"application_limited,omitempty"`
	NotSent            int64 `json:"not_sent_bytes,omitempty"`
	// SendBufferFull says that the socket's buffer has no room for what the program
	// would write.
	SendBufferFull bool `json:"send_buffer_full,omitempty"`
	// SlowStartThreshold is absent while the flow never left slow start.
	SlowStartThreshold int64 `json:"slow_start_threshold_bytes,omitempty"`
	// Totals since the flow started: segments that were delivered, how often
	// reordering was seen, segments that were sent again without need
	// (RFC 2883), segments that carried a mark of congestion (RFC 3168),
	// retransmission timeouts.
	Delivered            int64 `json:"delivered_segments,omitempty"`
	ReorderingSeen       int64 `json:"reordering_seen_count,omitempty"`
	DuplicateSegments    int64 `json:"duplicate_segments,omitempty"`
	CongestionMarks      int64 `json:"congestion_marked_segments,omitempty"`
	RetransmissionTimers int64 `json:"retransmission_timeouts,omitempty"`
	// Thread is for how long the thread that writes ran, or waited for a CPU, since
	// its first reading; absent where the flow has no thread of its own.
	Thread Seconds `json:"thread_seconds,omitempty"`
}

// ReceiverInfo is a sample of a receiving socket and of the thread that reads it.
type ReceiverInfo struct {
	At Seconds `json:"at_seconds"` // since the flow started
	// Unread is what has arrived and the program has not taken.
	Unread int64 `json:"unread_bytes,omitempty"`
	// OutOfOrder is how many segments came before one that was sent earlier
	// (tcpi_rcv_ooopack), in all.
	OutOfOrder int64 `json:"out_of_order_segments,omitempty"`
	// Thread is for how long the thread that reads ran, or waited for a CPU, since
	// its first reading; absent where the flow has no thread of its own.
	Thread Seconds `json:"thread_seconds,omitempty"`
}

// TraceHop is one step of a trace. A silent hop has no Address.
type TraceHop struct {
	TTL     int     `json:"ttl"`
	Address string  `json:"address,omitempty"`
	RTT     Seconds `json:"rtt_seconds,omitempty"`
	// Reached marks the destination itself.
	Reached bool `json:"reached,omitempty"`
	// Varies says that flows of the same path meet different hops here.
	Varies bool `json:"varies,omitempty"`
}

// End is what a test cost, and what happened to it, at one end of the path.
type End struct {
	Host string `json:"host,omitempty"`
	// HostID tells the machine from others of the same name, and is the same in
	// all its containers; NetworkID tells its network namespace from others.
	// Empty where the system does not say.
	HostID    string `json:"host_id,omitempty"`
	NetworkID string `json:"network_id,omitempty"`
	// Environment is the end's machine and its settings. In a run it is absent where
	// it is that of an earlier trial on the path.
	Environment map[string]string `json:"environment,omitempty"`
	// CPUs is the number of CPUs online; CPUBusy the share of all of
	// them, softirq included, over the measured time (0 to 1).
	CPUs    int     `json:"cpus,omitempty"`
	CPUBusy float64 `json:"cpu_busy_fraction,omitempty"`
	SoftIRQ float64 `json:"cpu_softirq_fraction,omitempty"`
	// Steal is the part of CPUBusy in which a hypervisor ran something else (/proc/stat,
	// proc(5)).
	Steal float64 `json:"cpu_steal_fraction,omitempty"`
	// Standstill is the share of the measured time in which this end did not run although
	// its CPUs had room: its process was stopped, or its machine.
	Standstill float64 `json:"standstill_fraction,omitempty"`
	// BusiestCPU is the share that the busiest single CPU was busy over
	// the measured time: one full CPU of many hides in CPUBusy.
	BusiestCPU float64 `json:"busiest_cpu_fraction,omitempty"`
	// CPUTime is what all CPUs together spent busy over the measured
	// time, by everything that ran there. 10 ms is the finest difference.
	CPUTime Seconds `json:"cpu_seconds,omitempty"`
	// ContextSwitches of the whole host over the measured time, 0 if unknown.
	ContextSwitches float64 `json:"context_switches,omitempty"`
	// DropsCounted says that this end watched its counters of lost packets.
	DropsCounted bool `json:"drops_counted,omitempty"`
	// Drops are packets that this host itself lost over the whole test, of a search for
	// a rate at the one that was found and at the lowest that failed, by the
	// place that counted them (interface, queueing discipline, softnet backlog,
	// UDP receive buffer); places without any are absent. The counters are those
	// of the end's network namespace, other traffic included.
	Drops []Drop `json:"drops,omitempty"`
	// SoftnetSqueezes is how often over the whole test the host stopped
	// receiving with packets left to receive, its budget used up: a sign of
	// overload, though nothing is lost by it.
	SoftnetSqueezes float64 `json:"softnet_squeezes_count,omitempty"`
	// LinkBitsPerSecond is the speed of the interface that the test's flows used, 0
	// where it is not known or, as between namespaces, no link's.
	LinkBitsPerSecond float64 `json:"link_bits_per_second,omitempty"`
	// OtherClients is what a server did for other clients during the test, nil where it did
	// nothing for any or does not tell.
	OtherClients *OtherClients `json:"other_clients,omitempty"`
	// ReceivedTTL is the IP time to live that the last hop left in packets
	// from the other end, 0 when it could not be read.
	ReceivedTTL int `json:"received_ttl,omitempty"`
	// Clock is how this end's clock stood to the coordinator's, absent where both are
	// one or it is not known.
	Clock *Clock `json:"clock,omitempty"`
}

// OtherClients is what tests of other clients with the same server moved meanwhile.
type OtherClients struct {
	// Count is how many addresses they had, 16 at most. Address is the one for which most
	// was moved; a server without a token names none.
	Count   int    `json:"count"`
	Address string `json:"address,omitempty"`
	Bytes   int64  `json:"bytes"`
}

// Clock is how the monotonic clock of an end, which was set by its wall clock when its
// agent began, stood to the coordinator's. No result depends on it being right.
type Clock struct {
	// Offset is by how much it was ahead, within Uncertainty either way, of which
	// most is what asymmetry of the path between the two can hide.
	Offset      Seconds `json:"offset_seconds"`
	Uncertainty Seconds `json:"uncertainty_seconds"`
	// DriftPPM is how many microseconds it gained in a second.
	DriftPPM float64 `json:"drift_ppm"`
	// Steps is how often it was seen to jump since its agent began, as one does whose
	// machine was suspended.
	Steps int `json:"steps,omitempty"`
}

// SameHost says whether two ends are on one machine, by name where it is not
// known better.
func (e End) SameHost(other End) bool {
	if e.HostID != "" && other.HostID != "" {
		return e.HostID == other.HostID
	}
	return e.Host != "" && e.Host == other.Host
}

// SameNetwork says whether two ends count the same packets, being in one
// network namespace; a host that does not say has a single one.
func (e End) SameNetwork(other End) bool {
	if e.NetworkID != "" && other.NetworkID != "" {
		return e.NetworkID == other.NetworkID
	}
	return e.SameHost(other)
}

// Drop is a number of packets that a host lost in one place.
type Drop struct {
	Place   string  `json:"place"`
	Packets float64 `json:"packets"`
	// HostWide marks a counter of the whole host, whatever the end's network
	// namespace.
	HostWide bool `json:"host_wide,omitempty"`
}

// Progress is a sign of life of a running test.
type Progress struct {
	Elapsed    Seconds `json:"elapsed_seconds"`
	Throughput float64 `json:"throughput_bits_per_second,omitempty"`
	RTT        Seconds `json:"rtt_seconds,omitempty"`
	// Pairs are the parts of a path's pairs where it has several, and Hops what its hops
	// have counted so far, one sample each, where a testbed reads them. Both are put
	// together by whoever does the trial, and are nil where there is nothing new.
	Pairs []PairProgress `json:"-"`
	Hops  []HopSeries    `json:"-"`
}

// PairProgress is the part that one pair of ends has in a Progress.
type PairProgress struct {
	Source, Destination string
	Throughput          float64 // bits per second
	RTT                 Seconds
}

// Trial is one test on one path, once: the unit of replication.
type Trial struct {
	// ID is the same whenever the same plan is run: "b03-one-appliance-tcp-10".
	ID string `json:"id"`
	// Block and Order, the position in the run, are counted from 1. A trial of a
	// variation is of no block, 0, and counted down from -1.
	Block int       `json:"block"`
	Order int       `json:"order"`
	Path  string    `json:"path"`
	Test  string    `json:"test"`
	Start time.Time `json:"start"`
	// Attempt is which attempt at the trial this is, where those before brought back nothing
	// or lacked too many pairs; absent of the first.
	Attempt int `json:"attempt,omitempty"`
	// Elapsed is the whole time the trial took, checks included.
	Elapsed Seconds `json:"elapsed_seconds"`
	Gate    Gate    `json:"gate"`
	// Fingerprint is the path that the trial was seen to take.
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
	Outcome
}

// PacedAt is the rate at which each flow of a test was paced, in bit/s: that which was asked
// for, or that of an end that bounds the rate of all tests; 0 for none.
func (o *Outcome) PacedAt(spec Spec) float64 {
	if spec.PacingBitsPerSecond > 0 {
		return spec.PacingBitsPerSecond
	}
	rate, err := strconv.ParseFloat(o.Effective["pacing_bits_per_second"], 64)
	if err != nil || !(rate > 0) || math.IsInf(rate, 0) {
		return 0 // or ends differ
	}
	return rate
}

// Fingerprint is the path a trial really took.
type Fingerprint struct {
	Hops []TraceHop `json:"hops"`
	// OuterHops are those below a tunnel, whose inside Hops are then.
	OuterHops []TraceHop `json:"outer_hops,omitempty"`
	// TracedBack says that Hops are those from the destination back to the source.
	TracedBack  bool  `json:"traced_back,omitempty"`
	ReceivedTTL int   `json:"received_ttl,omitempty"`
	PathMTU     int64 `json:"path_mtu_bytes,omitempty"`
	MSS         int64 `json:"mss_bytes,omitempty"`
	// Matches says that it is the path that the plan asked for; Why says what
	// differs when it is not.
	Matches bool     `json:"matches"`
	Why     *Finding `json:"why,omitempty"`
	// Learned says that the testbed did not declare the path, and that the trial
	// was compared with the first of the run.
	Learned bool `json:"learned,omitempty"`
	// Switched says that the path was switched to, in place, for this trial;
	// Settle is how long nothing was measured after that.
	Switched bool    `json:"switched,omitempty"`
	Settle   Seconds `json:"settle_seconds,omitempty"`
	// Switch is what commands of the user's did for the trial, nil where the testbed
	// needs none.
	Switch *PathSwitch `json:"switch,omitempty"`
}

// PathSwitch is how commands brought a path into force.
type PathSwitch struct {
	Set  map[string]string `json:"set"` // values, by switch
	Took Seconds           `json:"took_seconds"`
	// Proof is how it was proven, Evidence what was seen.
	Proof    string `json:"proof"`
	Evidence string `json:"evidence,omitempty"`
}
