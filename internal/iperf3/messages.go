package iperf3

import (
	"fmt"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
)

// Bounds of iperf3 (src/iperf.h).
const (
	MaxStreams     = 128
	maxSeconds     = 86400
	maxOmitSeconds = 600
	maxBlock       = 1 << 20
	minDatagram    = 16
	maxDatagram    = 65507
	maxBuffer      = 512 << 20
	maxMSS         = 32767
	maxBurst       = 1000
	defaultBlock   = 128 << 10
	defaultPacket  = 1460
)

// params are what the client asks for. Units: seconds, bytes, bit/s.
type params struct {
	TCP           flag    `json:"tcp,omitempty"`
	UDP           flag    `json:"udp,omitempty"`
	SCTP          flag    `json:"sctp,omitempty"`
	Omit          float64 `json:"omit"`
	Time          float64 `json:"time"`
	Bytes         float64 `json:"num"`
	Blocks        float64 `json:"blockcount"`
	MSS           float64 `json:"MSS,omitempty"`
	NoDelay       flag    `json:"nodelay,omitempty"`
	Parallel      float64 `json:"parallel"`
	Reverse       flag    `json:"reverse,omitempty"`
	Bidirectional flag    `json:"bidirectional,omitempty"`
	Window        float64 `json:"window,omitempty"`
	Len           float64 `json:"len,omitempty"`
	Rate          float64 `json:"bandwidth,omitempty"` // of each stream
	FQRate        float64 `json:"fqrate,omitempty"`    // of each stream, by the kernel
	PacingTimer   float64 `json:"pacing_timer,omitempty"`
	Burst         float64 `json:"burst,omitempty"` // blocks between two looks at the rate
	TOS           float64 `json:"TOS,omitempty"`
	Congestion    string  `json:"congestion,omitempty"`
	ServerOutput  numeric `json:"get_server_output,omitempty"`
	WideCounters  numeric `json:"udp_counters_64bit,omitempty"`
	DontFragment  numeric `json:"dont_fragment,omitempty"`
	Affinity      float64 `json:"server_affinity,omitempty"`
	AuthToken     string  `json:"authtoken,omitempty"`
	ClientVersion string  `json:"client_version,omitempty"`
}

// streams is how many streams the test has, in both directions.
func (p params) streams() int {
	if p.Bidirectional {
		return 2 * int(p.Parallel)
	}
	return int(p.Parallel)
}

// receives says whether the server is the receiver of stream number i: in a
// test of both directions the first half goes to the server.
func (p params) receives(i int) bool {
	if p.Bidirectional {
		return i < int(p.Parallel)
	}
	return !bool(p.Reverse)
}

// limited says that bytes or blocks end the test.
func (p params) limited() bool { return p.Bytes > 0 || p.Blocks > 0 }

func (p params) omit() time.Duration { return time.Duration(p.Omit) * time.Second }

// length is how long the test is by the clock; 0 when bytes or blocks end it.
func (p params) length() time.Duration { return time.Duration(p.Time) * time.Second }

// cost is what a server's end takes of its budget, in addition to the control connection: a
// thread and a socket for each stream, and its buffer.
func (p params) cost() admission.Cost {
	n := int64(p.streams())
	return admission.Cost{admission.Descriptors: n, admission.Threads: n, admission.Bytes: n * (discardBytes + maxDatagram)}
}

// leastRate is how many bytes per second have to move lest the test is ended.
func (p params) leastRate() float64 {
	if asked := max(p.Rate, p.FQRate) / 8 * float64(p.streams()); asked > 0 {
		return min(leastRate, asked/ratePart)
	}
	return leastRate
}

// knows says whether the client has at least version 3.minor.
func (p params) knows(minor int) bool {
	var have int
	_, err := fmt.Sscanf(p.ClientVersion, "3.%d", &have)
	return err == nil && have >= minor
}

// refusal is why a server does not do a test.
type refusal struct {
	code  code
	errno int32 // of the operating system, 0 for none
	why   string
}

func (r *refusal) Error() string { return r.why }

func refuse(c code, format string, args ...any) *refusal {
	return &refusal{code: c, why: fmt.Sprintf(format, args...)}
}

// check compares the parameters with iperf3's own bounds, and fills in what an
// old client leaves out.
func (p *params) check() *refusal {
	between := func(v, lo, hi float64) bool { return v >= lo && v <= hi && v == math.Trunc(v) }
	switch {
	case bool(p.SCTP):
		return refuse(codeNoSCTP, "the client asks for SCTP, which this server does not have")
	case p.AuthToken != "":
		return refuse(codeAuthorization, "the client sends a user name and a password, which this server cannot check")
	case bool(p.TCP && p.UDP):
		return refuse(codeRecvParams, "the client asks for more than one protocol")
	case bool(p.Reverse && p.Bidirectional):
		return refuse(codeReverseBidir, "the client asks for both reverse and bidirectional")
	case !between(p.Omit, 0, maxOmitSeconds):
		return refuse(codeOmit, "the omitted time is %v s", p.Omit)
	case !between(p.Time, 0, maxSeconds):
		return refuse(codeDuration, "the duration is %v s", p.Time)
	case !between(p.Bytes, 0, 1<<62), !between(p.Blocks, 0, 1<<62):
		return refuse(codeRecvParams, "the length is %v bytes or %v blocks", p.Bytes, p.Blocks)
	case !between(p.MSS, 0, maxMSS):
		return refuse(codeMSS, "the MSS is %v", p.MSS)
	case !between(p.Window, 0, maxBuffer):
		return refuse(codeBufferSize, "the window is %v bytes", p.Window)
	case !between(p.Burst, 0, maxBurst):
		return refuse(codeBurst, "the burst is %v blocks", p.Burst)
	case !between(p.TOS, 0, 255):
		return refuse(codeTOS, "the type of service is %v", p.TOS)
	case !(p.Rate >= 0 && p.Rate < 1e18), !(p.FQRate >= 0 && p.FQRate < 1e18), !(p.PacingTimer >= 0):
		return refuse(codeRecvParams, "the rate is %v or %v bit/s, the pacing timer %v", p.Rate, p.FQRate, p.PacingTimer)
	case len(p.Congestion) > 15: // TCP_CA_NAME_MAX with its closing zero
		return refuse(codeCongestion, "the congestion control algorithm is %.20q…", p.Congestion)
	}
	if p.Parallel == 0 {
		p.Parallel = 1
	}
	if !between(p.Parallel, 1, MaxStreams) {
		return refuse(codeStreams, "the number of streams is %v", p.Parallel)
	}
	return p.checkBlock()
}

func (p *params) checkBlock() *refusal {
	if p.UDP {
		if p.Len == 0 {
			p.Len = defaultPacket
		}
		if !(p.Len >= minDatagram && p.Len <= maxDatagram) {
			return refuse(codeUDPBlockSize, "a datagram is %v bytes", p.Len)
		}
		return nil
	}
	if p.Len == 0 {
		p.Len = defaultBlock
	}
	if !(p.Len >= 1 && p.Len <= maxBlock) {
		return refuse(codeBlockSize, "a block is %v bytes", p.Len)
	}
	return nil
}

// results are what each end says of a test at its end.
type results struct {
	// CPU is the CPU time of the end's process over the test, in percent
	// of one CPU.
	CPUTotal  float64 `json:"cpu_util_total"`
	CPUUser   float64 `json:"cpu_util_user"`
	CPUSystem float64 `json:"cpu_util_system"`
	// HasRetransmits is 1 when a sender knows its retransmits, 0 when not, -1
	// for an end that does not send.
	HasRetransmits float64        `json:"sender_has_retransmits"`
	Congestion     string         `json:"congestion_used,omitempty"`
	OutputText     string         `json:"server_output_text,omitempty"`
	Streams        []streamResult `json:"streams"`
}

// streamResult is one end of one stream. The omitted start is not part of Bytes
// but is of Lost and Packets.
type streamResult struct {
	ID             float64  `json:"id"`
	Bytes          float64  `json:"bytes"`
	Retransmits    float64  `json:"retransmits"`
	Jitter         float64  `json:"jitter"` // seconds
	Lost           float64  `json:"errors"`
	OmittedLost    *float64 `json:"omitted_errors,omitempty"` // since 3.14
	Packets        float64  `json:"packets"`                  // sent, or the highest number that came
	OmittedPackets *float64 `json:"omitted_packets,omitempty"`
	// Start and End are in seconds since the end of the omitted time; absent
	// before 3.2.
	Start *float64 `json:"start_time,omitempty"`
	End   *float64 `json:"end_time,omitempty"`
}

// streamID is the number of the i-th stream: 2 is never given, in any version.
func streamID(i int) int {
	if i == 0 {
		return 1
	}
	return i + 2
}

// check refuses results that cannot be those of so many streams, and returns
// them in the order of the streams.
func (r *results) check(streams int) ([]streamResult, error) {
	if len(r.Streams) != streams {
		return nil, fmt.Errorf("%w: results of %d streams, the test has %d", ErrMalformed, len(r.Streams), streams)
	}
	sorted := make([]streamResult, streams)
	seen := make([]bool, streams)
	for _, s := range r.Streams {
		i := int(s.ID) - 2
		if s.ID == 1 {
			i = 0
		}
		if i < 0 || i >= streams || streamID(i) != int(s.ID) || float64(int(s.ID)) != s.ID || seen[i] {
			return nil, fmt.Errorf("%w: results of a stream %v", ErrMalformed, s.ID)
		}
		s.Retransmits, s.Lost = signed(s.Retransmits), signed(s.Lost)
		if !(s.Bytes >= 0 && s.Bytes < 1e18 && s.Packets >= 0 && s.Packets < 1e18 && math.Abs(s.Lost) < 1e18 &&
			math.Abs(s.Retransmits) < 1e15 && s.Jitter >= 0 && s.Jitter < 1e18) {
			return nil, fmt.Errorf("%w: impossible results of stream %v", ErrMalformed, s.ID)
		}
		for _, optional := range []*float64{s.Start, s.End, s.OmittedLost, s.OmittedPackets} {
			if optional != nil && !(math.Abs(*optional) < 1e18) {
				return nil, fmt.Errorf("%w: impossible results of stream %v", ErrMalformed, s.ID)
			}
		}
		sorted[i], seen[i] = s, true
	}
	return sorted, nil
}

// signed undoes that some versions write -1, for "unknown", as 2⁶⁴-1.
func signed(v float64) float64 {
	if v >= 1<<63 {
		return -1
	}
	return v
}

// seconds is how long the end counted, 0 if it did not say.
func (s streamResult) seconds() float64 {
	if s.Start == nil || s.End == nil || *s.End <= *s.Start {
		return 0
	}
	return *s.End - *s.Start
}

func valueOf(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
