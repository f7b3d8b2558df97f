package measurement

import "reflect"

// Direction says which end sends, seen from the source of the path.
type Direction string

// The directions of a throughput test.
const (
	Send    Direction = "send"    // source sends, destination receives (default)
	Receive Direction = "receive" // destination sends, source receives (default of ftp)
	Both    Direction = "both"    // both send at once, on flows of their own
)

// Tool says whose protocol the two ends of a tcp or udp test speak.
type Tool string

// The tools.
const (
	Native Tool = ""       // this project's
	IPerf3 Tool = "iperf3" // iperf3's; the destination may be a stock server
)

// SendMethod is how the sender of a tcp or udp test hands bytes to the kernel.
type SendMethod string

// The send methods.
const (
	SendFast     SendMethod = ""         // whichever of the others is faster here
	SendCopy     SendMethod = "copy"     // send(2): the kernel copies
	SendZerocopy SendMethod = "zerocopy" // splice(2) or sendfile(2): the kernel refers to memory
)

// Switch turns an offload on or off.
type Switch string

// The positions of a Switch.
const (
	Auto Switch = ""    // on where the kernel has it
	On   Switch = "on"  // on, or the test fails
	Off  Switch = "off" // off
)

// Protocol is the transport of an rr test or of trace probes.
type Protocol string

// The protocols of rr (tcp, udp) and trace (tcp, udp, icmp).
const (
	OverTCP  Protocol = "tcp"
	OverUDP  Protocol = "udp"
	OverICMP Protocol = "icmp"
)

// Spec is what one test asks of the two ends of a path. A zero field means
// "the default of that kind"; Defaults fills it in, so that what is stored is
// what was done. Package kind says which kinds of test use which field and within
// what bounds; in those of other kinds it is zero.
type Spec struct {
	Kind Kind `json:"kind"`

	// Tool of a tcp or udp test.
	Tool Tool `json:"tool,omitempty"`

	// Duration is the measured time of every kind but ftp, ping, trace and mtu; of
	// load, that under load. Warm-up comes before it and is not part of it.
	Duration Seconds `json:"duration_seconds,omitempty"`
	// MaxWarmup bounds the discarded start of a tcp or load test (the
	// steadiness test decides within it) and is the fixed discarded start of
	// the other kinds.
	MaxWarmup Seconds `json:"max_warmup_seconds,omitempty"`
	// IdleDuration is the time before the load of a load test in which the
	// latency of the idle path is taken.
	IdleDuration Seconds `json:"idle_duration_seconds,omitempty"`

	// Flows is the number of parallel connections of a tcp or load test, each
	// way when the direction is both, of UDP 5-tuples of a udp or pps test,
	// of connections in progress at a time in a crr test, and of segments of the
	// file in an ftp test.
	Flows     int       `json:"flows,omitempty"`
	Direction Direction `json:"direction,omitempty"` // of tcp, udp, pps and ftp (not both), and load

	// FileBytes is the size of an ftp test's file.
	FileBytes int64 `json:"file_bytes,omitempty"`
	// FilePath names a file on a stock FTP server, which is then the target of
	// an ftp test, and has the file's size to say. FileCRC32 is the CRC-32 that
	// it must have, in eight hexadecimal digits; empty if unknown.
	FilePath  string `json:"file_path,omitempty"`
	FileCRC32 string `json:"file_crc32,omitempty"`

	// CongestionControl is the algorithm's kernel name; empty leaves the host's.
	CongestionControl string `json:"congestion_control,omitempty"`
	// WindowBytes clamps the receive window each TCP flow may advertise
	// (TCP_WINDOW_CLAMP); 0 leaves autotuning alone.
	WindowBytes int64 `json:"window_bytes,omitempty"`
	// SendBufferBytes and ReceiveBufferBytes fix the socket buffers (SO_SNDBUF,
	// SO_RCVBUF, as asked: the kernel doubles them) of tcp, udp, pps and load
	// tests; 0 leaves autotuning alone (for UDP, the largest buffer allowed).
	SendBufferBytes    int64 `json:"send_buffer_bytes,omitempty"`
	ReceiveBufferBytes int64 `json:"receive_buffer_bytes,omitempty"`
	// MSSBytes bounds the TCP segments of both ends (TCP_MAXSEG), those of the connection
	// that controls a test over UDP as well; 0 leaves them.
	MSSBytes int `json:"mss_bytes,omitempty"`
	// PacingBitsPerSecond bounds each TCP flow (SO_MAX_PACING_RATE); 0 does not.
	PacingBitsPerSecond float64 `json:"pacing_bits_per_second,omitempty"`
	// The flags stand together because a Spec is on the stacks of all flows, of which there may
	// be ten thousand: 8 bytes more doubled those stacks once.
	//
	// CopyPayload makes the receiver copy the bytes to user space, as an
	// application would; otherwise it may discard them in the kernel.
	CopyPayload bool `json:"copy_payload,omitempty"`
	// ShareThreads has the flows of a tcp test share the threads of each end,
	// however few they are, as very many do by themselves: where many tests run
	// on one host at the same time.
	ShareThreads bool `json:"share_threads,omitempty"`
	// MPTCP asks for Multipath TCP (RFC 8684) where both kernels have it.
	MPTCP bool `json:"mptcp,omitempty"`
	// SendMethod of a tcp, udp or load test; packets can be sent without a copy only
	// as fast as they go.
	SendMethod SendMethod `json:"send_method,omitempty"`
	// SenderPause and ReceiverPause are for how long the program of that end of a
	// tcp test waits after each 64 KiB, SenderBurn and ReceiverBurn for how long it
	// keeps a CPU busy: models of slow programs.
	SenderPause   Seconds `json:"sender_pause_seconds,omitempty"`
	ReceiverPause Seconds `json:"receiver_pause_seconds,omitempty"`
	SenderBurn    Seconds `json:"sender_burn_seconds,omitempty"`
	ReceiverBurn  Seconds `json:"receiver_burn_seconds,omitempty"`

	// DSCP marks the packets of both ends (RFC 2474), 0 to 63; of every kind
	// but ping and trace.
	DSCP int `json:"dscp,omitempty"`
	// SourcePort is the source's port of the first flow, each further flow
	// takes the next; 0 leaves the choice to the kernel.
	SourcePort int `json:"source_port,omitempty"`
	// Device is the source's network interface (SO_BINDTODEVICE).
	Device string `json:"device,omitempty"`

	// RateBitsPerSecond of the UDP payload of all flows together; 0 is as fast
	// as the sender can.
	RateBitsPerSecond float64 `json:"rate_bits_per_second,omitempty"`
	// PacketBytes is the UDP payload of a udp or pps test; 0 in a udp test is
	// what fits the path's MTU, and 1472 at most where a rate or LossBound is asked for.
	PacketBytes int `json:"packet_bytes,omitempty"`
	// GSO has the kernel or the network interface cut a large buffer into the
	// packets (UDP_SEGMENT), GRO has the receiving one join them (UDP_GRO).
	GSO Switch `json:"gso,omitempty"`
	GRO Switch `json:"gro,omitempty"`
	// LossBound, when above 0, has a udp or pps test search for the highest
	// rate (up to RateBitsPerSecond, if given) of which no larger fraction is lost.
	LossBound float64 `json:"loss_bound_fraction,omitempty"`

	// Protocol of rr and load's latency (tcp or udp), trace (tcp, udp or icmp).
	Protocol Protocol `json:"protocol,omitempty"`
	// RequestBytes and ResponseBytes of rr, crr and load's latency.
	RequestBytes  int `json:"request_bytes,omitempty"`
	ResponseBytes int `json:"response_bytes,omitempty"`
	// RequestsPerSecond makes rr (and load's latency) open-loop: requests leave
	// at their intended times, whether or not answers came, and latency counts
	// from the intended time. 0 is closed-loop: an answer releases the next.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
	// InFlight is how many requests of a closed-loop rr test are unanswered at
	// a time.
	InFlight int `json:"in_flight,omitempty"`
	// Spin has both ends of an rr test poll instead of sleeping until a
	// message comes: the path without the wake-up, for two whole CPUs.
	Spin bool `json:"spin,omitempty"`
	// Colocate puts the threads of both ends, which must be on one host, on one
	// CPU: a round trip without the wake-up of another CPU.
	Colocate bool `json:"colocate,omitempty"`

	// Count and Interval of ping's echo requests.
	Count    int     `json:"count,omitempty"`
	Interval Seconds `json:"interval_seconds,omitempty"`
	// PayloadBytes is the ICMP payload of ping (default 56, as ping(8)).
	PayloadBytes int `json:"payload_bytes,omitempty"`

	// MaxHops bounds a trace.
	MaxHops int `json:"max_hops,omitempty"`
	// Ramp spreads the starts of several pairs evenly over a time. Waves starts them in so
	// many groups, one every WaveEvery. What comes before the last start is not measured.
	Ramp      Seconds `json:"ramp_seconds,omitempty"`
	Waves     int     `json:"waves,omitempty"`
	WaveEvery Seconds `json:"wave_every_seconds,omitempty"`
	// Lead is a start of a tcp test, before its warm-up, of which nothing is measured: others
	// of several pairs have yet to start.
	Lead Seconds `json:"lead_seconds,omitempty"`
	// Pairs of hosts do the test at the same time, of which this is one, and are reported
	// together; 0 or 1 for this one alone.
	Pairs int `json:"pairs,omitempty"`
	// MissingPairs is how many of several pairs may bring back nothing, by no fault of the
	// path, in a trial that counts.
	MissingPairs int `json:"missing_pairs,omitempty"`

	// Timeout is how long a single ping, trace or mtu probe, or a response of
	// rr over UDP, is waited for.
	Timeout Seconds `json:"timeout_seconds,omitempty"`
}

// Defaults returns s with the zero fields of its kind filled in.
func (s Spec) Defaults() Spec {
	d := rowOf(s.Kind).defaults
	if s.FilePath != "" {
		d.FileBytes = 0 // a file on a stock server has its own size
	}
	to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(d)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return s
}

// expectedFTPBitsPerSecond is the rate that ExpectedDuration takes a path to
// have, which an ftp test is about to find out.
const expectedFTPBitsPerSecond = 1e9

// StartOf is how long after the first of several pairs one starts, counted from 0.
func (s Spec) StartOf(pair, pairs int) Seconds {
	switch {
	case pairs < 2:
		return 0
	case s.Waves > 0:
		return Seconds(pair*s.Waves/pairs) * s.WaveEvery
	}
	return s.Ramp * Seconds(pair) / Seconds(pairs-1)
}

// StartSpan is how long after the first of several pairs the last one starts.
func (s Spec) StartSpan() Seconds {
	if s.Waves > 0 {
		return Seconds(s.Waves-1) * s.WaveEvery
	}
	return s.Ramp
}

// ExpectedDuration is about how long the test takes, for a progress display
// and for deadlines; it is an upper estimate on a healthy path.
func (s Spec) ExpectedDuration() Seconds {
	s = s.Defaults()
	switch s.Kind {
	case FTP:
		return max(Seconds(float64(s.FileBytes)*8/expectedFTPBitsPerSecond), 1)
	case MTU:
		return 3 * s.Timeout
	case Ping:
		return Seconds(s.Count-1)*s.Interval + 0.05
	case Trace:
		return 0.05
	}
	return s.StartSpan() + s.Lead + s.IdleDuration + s.MaxWarmup + s.Duration
}
