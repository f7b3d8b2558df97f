package protocol

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Identity names the test that a connection belongs to, in its first frame,
// so that each connection stands on its own wherever a load balancer puts it.
type Identity struct {
	// Session is 32 hexadecimal digits that the client draws for one test.
	Session string `json:"session"`
	// Test is the trial's id, for people and logs.
	Test string `json:"test,omitempty"`
	// Flow counts the test's connections from 0.
	Flow int `json:"flow"`
}

// SessionDigits is the length of Identity.Session.
const SessionDigits = 32

const maxTestName = 200

func (id Identity) check() error {
	if len(id.Session) != SessionDigits {
		return fmt.Errorf("%w: session of %d digits, want %d", ErrMalformed, len(id.Session), SessionDigits)
	}
	for _, c := range []byte(id.Session) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%w: session %q is not hexadecimal", ErrMalformed, id.Session)
		}
	}
	if len(id.Test) > maxTestName {
		return fmt.Errorf("%w: test name of %d bytes, at most %d", ErrMalformed, len(id.Test), maxTestName)
	}
	if id.Flow < 0 {
		return fmt.Errorf("%w: flow %d", ErrMalformed, id.Flow)
	}
	return nil
}

// Hello is the payload of TypeHello.
type Hello struct {
	Identity
	Nonce []byte `json:"nonce"`
}

// Challenge is the payload of TypeChallenge.
type Challenge struct {
	Nonce []byte `json:"nonce"`
}

// Proof is the payload of TypeProof and TypeAccept.
type Proof struct {
	MAC []byte `json:"mac"`
}

// RemoteError is the payload of TypeError: why the other end gave up.
type RemoteError struct {
	// Reason is one of the words of docs/protocol.md: unauthorized, limit,
	// protocol, timeout, unsupported, internal.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (e *RemoteError) Error() string {
	return "the other end says: " + e.Message
}

// Open is the payload of TypeOpen: what this connection is for. The spec is
// complete: a server applies no defaults of its own.
type Open struct {
	Spec measurement.Spec `json:"spec"`
	// HostSeries asks for the server's CPU time series (one connection
	// of a test does).
	HostSeries bool `json:"host_series,omitempty"`
	// HostID tells the client's machine from others, and CPUs are those that its
	// threads may run on; empty where unknown, or where nothing depends on it.
	HostID string `json:"host_id,omitempty"`
	CPUs   []int  `json:"cpus,omitempty"`
	// MaxRateBitsPerSecond is the client's own bound of the test, as READY's is the
	// server's; absent without.
	MaxRateBitsPerSecond float64 `json:"max_rate_bits_per_second,omitempty"`
	// SenderPaces says that the client sends on this connection, and its congestion
	// control sets a pacing rate by itself: the receiver is woken for batches then.
	SenderPaces bool `json:"sender_paces,omitempty"`
	// Deflate says that the client reads deflated frames.
	Deflate bool `json:"deflate,omitempty"`
	// Run tells the tests of one run from those of others; a client that names none is
	// known by its address.
	Run string `json:"run,omitempty"`
}

// Ready is the payload of TypeReady: what the server prepared.
type Ready struct {
	// Client is the client's address and port as the server sees it, after NAT.
	Client string `json:"client"`
	// Server is the server's own address and port on this connection, which
	// differs from what the client dialled when something translates it.
	Server string `json:"server"`
	// Placement says where the threads of the two ends of a latency test run, and
	// CPUs, unless empty, to which the client keeps its own.
	Placement string `json:"placement,omitempty"`
	CPUs      []int  `json:"cpus,omitempty"`
	// ReceivedTTL is the time to live left in the client's packets, 0 unknown.
	ReceivedTTL int `json:"received_ttl,omitempty"`
	// Cookie must begin every UDP packet of this test.
	Cookie []byte `json:"cookie,omitempty"`
	// UDPFlow is the number that this flow's first UDP packet must carry.
	UDPFlow uint32 `json:"udp_flow,omitempty"`
	// MSS of the connection at the server's end.
	MSS int `json:"mss_bytes,omitempty"`
	// MaxRateBitsPerSecond is the most payload that the two ends let the whole test
	// move; absent if neither bounds it. A test that asked for no rate is paced so.
	MaxRateBitsPerSecond float64 `json:"max_rate_bits_per_second,omitempty"`
	// ClockID tells the clock of the server's stamps from others; a server that
	// answers none has none.
	ClockID string `json:"clock_id,omitempty"`
	// EndsEarly says that SENT from the client ends the count of a tcp test.
	EndsEarly bool `json:"ends_early,omitempty"`
	// SenderPaces is that of OPEN where the server sends.
	SenderPaces bool `json:"sender_paces,omitempty"`
	// FTP is where the file of an ftp test is.
	FTP *FTP `json:"ftp,omitempty"`
}

// FTP is the FTP server of one test, at the address that the test was opened
// to, for as long as that connection lives.
type FTP struct {
	Port     int    `json:"port"`
	User     string `json:"user"`
	Password string `json:"password"`
	Path     string `json:"path"`
}

// CookieBytes is the length of Ready.Cookie.
const CookieBytes = 16

// Received is the payload of TypeReceived: what the receiver counted from
// START on, by its own clock.
type Received struct {
	Bins measurement.Bins `json:"bins"`
	// Info is the series of the receiving socket of a flow of a tcp test.
	Info []measurement.ReceiverInfo `json:"info,omitempty"`
	// Packets is what was counted besides bytes in a test over UDP.
	Packets   *Packets          `json:"packets,omitempty"`
	Clock     *Clock            `json:"clock,omitempty"`
	Host      *HostSeries       `json:"host,omitempty"`
	Effective map[string]string `json:"effective,omitempty"`
	Facts     []string          `json:"facts,omitempty"`
}

// Packets is what the receiver of a flow of UDP packets counted. All but Bins
// and BufferDrops concern the packets that were sent in the measured time.
type Packets struct {
	// Bins is the number of distinct packets in each bin of time.
	Bins []float64 `json:"bins"`
	// Sent is what the sender said; Received is distinct packets, of which
	// Reordered came after one that was sent later; Duplicated is further copies.
	Sent       int64 `json:"sent"`
	Received   int64 `json:"received"`
	Duplicated int64 `json:"duplicated"`
	Reordered  int64 `json:"reordered"`
	// ReceivedBytes is the payload of the packets of Received, ArrivalTime how long
	// they took to arrive, from the first to the last that none overtook; 0 where ClockStepped.
	ReceivedBytes int64               `json:"received_bytes"`
	ArrivalTime   measurement.Seconds `json:"arrival_seconds"`
	// Jitter is that of RFC 3550 at the end, DelayVariation the 99th
	// percentile of the packet delay variation of RFC 5481; absent without packets,
	// and where ClockStepped.
	Jitter         measurement.Seconds `json:"jitter_seconds,omitempty"`
	DelayVariation measurement.Seconds `json:"delay_variation_p99_seconds,omitempty"`
	// DelayMedian is the median of that variation, LeastDelay the delay of the fastest
	// packet, its arrival since the receiver's START less its sending since the sender's.
	DelayMedian measurement.Seconds `json:"delay_variation_p50_seconds,omitempty"`
	LeastDelay  measurement.Seconds `json:"least_delay_seconds,omitempty"`
	// ClockStepped says that someone set the clock by which the receiving kernel
	// stamps packets, so that the delays say nothing.
	ClockStepped bool `json:"clock_stepped,omitempty"`
	// BufferDrops is how often the receiving socket's buffer was full, in the
	// whole test: loss in the host and not on the path.
	BufferDrops int64 `json:"buffer_drops,omitempty"`
}

// Clock says when START was at an end.
type Clock struct {
	// ID is that of a monotonic clock that processes of the end's machine share, empty
	// where none is known. Two ends have one clock where it is the same. Start is START
	// by that clock.
	ID    string `json:"id,omitempty"`
	Start int64  `json:"start_nanoseconds,omitempty"`
	// Stamped is START by the clock of the server's stamps.
	Stamped int64 `json:"stamped_nanoseconds,omitempty"`
	// Uncertainty bounds the error of the end's times by either clock.
	Uncertainty measurement.Seconds `json:"uncertainty_seconds"`
}

// Sent is the payload of TypeSent: what the sender saw. Nothing in it counts
// towards a metric of throughput.
type Sent struct {
	Bytes int64 `json:"bytes"`
	// MeasuredPackets is how many UDP packets were sent in the measured time,
	// by the sender's clock; the receiver needs it to see that the last ones
	// are missing.
	MeasuredPackets int64 `json:"measured_packets,omitempty"`
	// PacketBytes is the payload of each of them.
	PacketBytes int                   `json:"packet_bytes,omitempty"`
	Clock       *Clock                `json:"clock,omitempty"`
	Final       *measurement.TCPInfo  `json:"final,omitempty"`
	Info        []measurement.TCPInfo `json:"info,omitempty"`
	Host        *HostSeries           `json:"host,omitempty"`
	Effective   map[string]string     `json:"effective,omitempty"`
	Facts       []string              `json:"facts,omitempty"`
}

// Reached is the payload of TypeReached.
type Reached struct {
	// Client is the source of the flow's UDP packets as the server sees it.
	Client string `json:"client"`
}

// Report is the payload of TypeReport: the server's view of an rr, crr, mtu or
// ftp test.
type Report struct {
	Answered int64 `json:"answered"`
	// Transfers are those of an ftp test, in the order of their offsets.
	Transfers []Transfer        `json:"transfers,omitempty"`
	Host      *HostSeries       `json:"host,omitempty"`
	Effective map[string]string `json:"effective,omitempty"`
	Facts     []string          `json:"facts,omitempty"`
}

// Transfer is one of a file's segments as the server of an ftp test saw it.
type Transfer struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"` // that it sent or received
	// CRC32 and Bins are of what it received, Took of the time from STOR to the
	// last byte.
	CRC32 uint32              `json:"crc32,omitempty"`
	Bins  *measurement.Bins   `json:"bins,omitempty"`
	Took  measurement.Seconds `json:"took_seconds,omitempty"`
	// Client and Server are the ends of its data connection, as the server sees
	// them.
	Client string `json:"client"`
	Server string `json:"server"`
	// Final and Info are the TCP_INFO of a sender.
	Final *measurement.TCPInfo  `json:"final,omitempty"`
	Info  []measurement.TCPInfo `json:"info,omitempty"`
}

// HostSeries is what a host spent since START: At[i] seconds after it, the
// CPUs together had spent Busy[i] seconds of Total[i] not idle, of which
// SoftIRQ[i] in soft interrupts and Steal[i] stolen by a hypervisor, and had switched tasks Switches[i] times.
type HostSeries struct {
	Host string `json:"host,omitempty"`
	// HostID and NetworkID are those of measurement.End.
	HostID    string `json:"host_id,omitempty"`
	NetworkID string `json:"network_id,omitempty"`
	CPUs      int    `json:"cpus"`
	// Environment is that of measurement.End.
	Environment map[string]string `json:"environment,omitempty"`
	At          []float64         `json:"at_seconds"`
	Busy        []float64         `json:"busy_seconds"`
	SoftIRQ     []float64         `json:"softirq_seconds"`
	Steal       []float64         `json:"steal_seconds,omitempty"`
	Total       []float64         `json:"total_seconds"`
	// Busiest are series like Busy, of the few single CPUs that spent the
	// most over the whole test.
	Busiest [][]float64 `json:"busiest_seconds,omitempty"`
	// Switches is absent where the system does not say.
	Switches []float64 `json:"context_switches,omitempty"`
	// The others are those of measurement.End, over the whole test.
	DropsCounted bool               `json:"drops_counted,omitempty"`
	Drops        []measurement.Drop `json:"drops,omitempty"`
	Squeezes     float64            `json:"softnet_squeezes_count,omitempty"`
	Link         float64            `json:"link_bits_per_second,omitempty"`
	// OtherClients are those that a server had since START.
	OtherClients *measurement.OtherClients `json:"other_clients,omitempty"`
}
