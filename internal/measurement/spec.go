package measurement

// Kind names what a test measures.
type Kind string

// The kinds of test.
const (
	TCP   Kind = "tcp"   // bulk throughput, confirmed by the receiver
	RR    Kind = "rr"    // request/response latency over TCP or UDP
	Ping  Kind = "ping"  // ICMP echo
	Trace Kind = "trace" // the hops of the path
)

// Direction says which end sends, seen from the source of the path.
type Direction string

// The directions of a throughput test.
const (
	Send    Direction = "send"    // source sends, destination receives (default)
	Receive Direction = "receive" // destination sends, source receives
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
// what was done.
type Spec struct {
	Kind Kind `json:"kind"`

	// Duration is the measured time of a tcp or rr test. Warm-up comes before
	// it and is not part of it.
	Duration Seconds `json:"duration_seconds,omitempty"`
	// MaxWarmup bounds the discarded start of a tcp test (the steadiness test
	// decides within it) and is the fixed discarded start of an rr test.
	MaxWarmup Seconds `json:"max_warmup_seconds,omitempty"`

	// Flows is the number of parallel TCP connections of a tcp test.
	Flows     int       `json:"flows,omitempty"`
	Direction Direction `json:"direction,omitempty"`
	// CongestionControl is the algorithm's kernel name; empty leaves the host's.
	CongestionControl string `json:"congestion_control,omitempty"`
	// WindowBytes clamps the receive window each flow may advertise
	// (TCP_WINDOW_CLAMP); 0 leaves autotuning alone.
	WindowBytes int64 `json:"window_bytes,omitempty"`
	// CopyPayload makes the receiver copy the bytes to user space, as an
	// application would; otherwise it may discard them in the kernel.
	CopyPayload bool `json:"copy_payload,omitempty"`

	// Protocol of rr (tcp or udp) and trace (tcp, udp or icmp).
	Protocol      Protocol `json:"protocol,omitempty"`
	RequestBytes  int      `json:"request_bytes,omitempty"`
	ResponseBytes int      `json:"response_bytes,omitempty"`

	// Count and Interval of ping's echo requests.
	Count    int     `json:"count,omitempty"`
	Interval Seconds `json:"interval_seconds,omitempty"`
	// PayloadBytes is the ICMP payload of ping (default 56, as ping(8)).
	PayloadBytes int `json:"payload_bytes,omitempty"`

	// MaxHops bounds a trace.
	MaxHops int `json:"max_hops,omitempty"`
	// Timeout is how long a single ping or trace probe is waited for.
	Timeout Seconds `json:"timeout_seconds,omitempty"`
}

// Defaults returns s with the zero fields of its kind filled in.
func (s Spec) Defaults() Spec {
	setSeconds := func(p *Seconds, v Seconds) {
		if *p == 0 {
			*p = v
		}
	}
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	switch s.Kind {
	case TCP:
		setSeconds(&s.Duration, 10)
		setSeconds(&s.MaxWarmup, 2)
		setInt(&s.Flows, 1)
		if s.Direction == "" {
			s.Direction = Send
		}
	case RR:
		setSeconds(&s.Duration, 1)
		setSeconds(&s.MaxWarmup, 0.1)
		setInt(&s.RequestBytes, 1)
		setInt(&s.ResponseBytes, 1)
		if s.Protocol == "" {
			s.Protocol = OverTCP
		}
	case Ping:
		setInt(&s.Count, 20)
		setSeconds(&s.Interval, 1)
		setInt(&s.PayloadBytes, 56)
		setSeconds(&s.Timeout, 1)
	case Trace:
		setInt(&s.MaxHops, 30)
		setSeconds(&s.Timeout, 1)
		if s.Protocol == "" {
			s.Protocol = OverTCP
		}
	}
	return s
}

// ExpectedDuration is about how long the test takes, for a progress display
// and for deadlines; it is an upper estimate on a healthy path.
func (s Spec) ExpectedDuration() Seconds {
	s = s.Defaults()
	switch s.Kind {
	case TCP, RR:
		return s.MaxWarmup + s.Duration
	case Ping:
		return Seconds(s.Count-1)*s.Interval + 0.05
	case Trace:
		return 0.05
	}
	return 0
}
