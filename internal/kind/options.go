package kind

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// auto is a word for leaving the choice to the program, as if the option were
// left out.
const auto = "auto"

// Bounds that more than one option, or code elsewhere, needs.
const (
	// MaxFlows bounds the flows of a test, in each direction.
	MaxFlows = 10_000
	// maxPacketFlows bounds the UDP flows of a test: each has a socket and a thread
	// of its own at either end.
	maxPacketFlows = 1024
	// maxSeconds bounds each part of a test: 24 hours.
	maxSeconds  = 24 * 60 * 60
	MaxDuration = maxSeconds * time.Second
	// MaxMessageBytes bounds a request and a response.
	MaxMessageBytes = 1 << 20
	// MaxDatagramBytes is the largest UDP payload over IPv4.
	MaxDatagramBytes = 65_507
	// MinPacketBytes is what a packet of udp and pps carries: the test's cookie, a
	// sequence number, the time it was sent.
	MinPacketBytes = 32
	// MaxInFlight bounds the requests that wait for their response.
	MaxInFlight = 4096
	// MaxBufferBytes is the largest TCP window, 65535 << 14 (RFC 7323, 2.2), rounded
	// up.
	MaxBufferBytes = 1 << 30
	// MaxHops bounds a trace.
	MaxHops = 64
	maxPort = 65_535
	// LeastRateBitsPerSecond and LeastBufferBytes hold after scaling: with less, a trial of seconds
	// carries too few packets to measure anything.
	LeastRateBitsPerSecond = 8_000
	LeastBufferBytes       = 4_000
	// leastSegment of a file, after scaling, is one that takes long enough for a rate.
	leastSegment = 64_000
	// MaxPairs bounds the pairs of hosts that do one test at the same time: as many as a fleet
	// of 10 000 machines has.
	MaxPairs = 5000
	// maxMissing of the most pairs of an experiment leaves one.
	maxMissing = MaxPairs - 1
	// maxSegments bounds the segments of a file, each of which has a session of its own.
	maxSegments = 256
)

func upTo(most float64) Limits { return Limits{Least: 1, Most: most} }

func words(w ...string) Limits { return Limits{Words: w} }

var oneWay = words("send", "receive")

var options = []Option{
	{
		Name: "duration", InFile: true, InLength: true, Flag: "duration", Short: "t", Aliases: []string{"time"}, Shared: true,
		Kinds: timed, Type: Time, Limits: Limits{Least: 0.01, Most: maxSeconds},
		Except: map[measurement.Kind]Limits{rr: {Least: 0.001, Most: maxSeconds}, crr: {Least: 0.001, Most: maxSeconds}},
		Doc:    "measured time; in a load test, the time under load",
		field:  func(s *measurement.Spec) any { return &s.Duration },
	},
	{
		Name: "max_warmup", InFile: true, InLength: true, Flag: "omit", Short: "O",
		Kinds: timed, Type: Time, Limits: Limits{Least: 1e-9, Most: maxSeconds}, Optional: true,
		Doc:   "warm-up before the duration, discarded; tcp, load: the longest, since it ends once the rate is steady",
		field: func(s *measurement.Spec) any { return &s.MaxWarmup },
	},
	{
		Name: "idle", InFile: true, InLength: true, Kinds: of(load), Type: Time, Limits: Limits{Least: 0.01, Most: maxSeconds},
		Doc:   "time to measure the latency of the idle path before the load",
		field: func(s *measurement.Spec) any { return &s.IdleDuration },
	},
	{
		Name: "flows", InFile: true, Flag: "flows", Short: "P", Aliases: []string{"parallel"},
		Kinds: parallel, Type: Whole, Limits: upTo(MaxFlows),
		Except: map[measurement.Kind]Limits{udp: upTo(maxPacketFlows), pps: upTo(maxPacketFlows), ftp: upTo(maxSegments)},
		Doc:    "parallel connections, in each direction if both ends send; udp, pps: UDP 5-tuples; crr: concurrent connections; ftp: segments of the file",
		field:  func(s *measurement.Spec) any { return &s.Flows },
	},
	{
		Name: "direction", InFile: true, Kinds: directed, Type: Word, Limits: words("send", "receive", "both"),
		Except: map[measurement.Kind]Limits{udp: oneWay, pps: oneWay, ftp: oneWay},
		Doc:    "which end sends: the source (send), the destination (receive), or both at the same time",
		field:  func(s *measurement.Spec) any { return &s.Direction },
	},
	{
		Name: "file", InFile: true, InLength: true, Flag: "file", Kinds: of(ftp), Type: Size, Limits: upTo(10e12),
		Optional: true, Scaled: true, LeastScaled: leastSegment, PerFlow: true,
		Doc:   "size of the file",
		field: func(s *measurement.Spec) any { return &s.FileBytes },
	},
	{
		Name: "file_path", Flag: "ftp-path", Kinds: of(ftp), Type: Text, Limits: Limits{Most: 1024},
		Unset: "a file made for the test", Doc: "file to fetch from a stock FTP server",
		field: func(s *measurement.Spec) any { return &s.FilePath },
	},
	{
		Name: "file_crc32", Flag: "ftp-crc32", Kinds: of(ftp), Type: Text, Limits: Limits{Most: 8},
		Unset: "not checked", Doc: "CRC-32 to require of the file of a stock server, as crc32 prints it: eight hexadecimal digits",
		field: func(s *measurement.Spec) any { return &s.FileCRC32 },
	},
	{
		Name: "congestion_control", Flag: "congestion", Short: "C", Kinds: tuned, Type: Name,
		Unset: "the host's", Doc: "congestion control algorithm, by the kernel's name; in a file, set it at the endpoint",
		field: func(s *measurement.Spec) any { return &s.CongestionControl },
	},
	{
		Name: "window", Flag: "window", Short: "w", Kinds: tuned, Type: Size, Limits: upTo(MaxBufferBytes),
		Unset: "the kernel's tuning", Doc: "largest receive window that each flow advertises (TCP_WINDOW_CLAMP); in a file, set it at the endpoint",
		field: func(s *measurement.Spec) any { return &s.WindowBytes },
	},
	{
		Name: "send_buffer", InFile: true, Kinds: sending, Type: Size, Limits: upTo(MaxBufferBytes), Scaled: true, LeastScaled: LeastBufferBytes,
		Unset: "the kernel's tuning; for UDP, the largest allowed", Doc: "send buffer of each socket (SO_SNDBUF)",
		field: func(s *measurement.Spec) any { return &s.SendBufferBytes },
	},
	{
		Name: "receive_buffer", InFile: true, Kinds: sending, Type: Size, Limits: upTo(MaxBufferBytes), Scaled: true, LeastScaled: LeastBufferBytes,
		Unset: "the kernel's tuning; for UDP, the largest allowed", Doc: "receive buffer of each socket (SO_RCVBUF)",
		field: func(s *measurement.Spec) any { return &s.ReceiveBufferBytes },
	},
	{
		// TCP_MIN_MSS and MAX_TCP_WINDOW of Linux (net/tcp.h)
		Name: "mss", InFile: true, Flag: "mss", Short: "M", Aliases: []string{"set-mss"}, Kinds: connected, Type: Size, Limits: Limits{Least: 88, Most: 32_767},
		Unset: "as the path allows", Doc: "largest TCP segment of both ends (TCP_MAXSEG), also on the control connection of a UDP test",
		field: func(s *measurement.Spec) any { return &s.MSSBytes },
	},
	{
		Name: "pacing", InFile: true, Kinds: streams, Type: Rate, Limits: Limits{Least: 8, Most: quantity.MaxRateBitsPerSecond}, Scaled: true, LeastScaled: LeastRateBitsPerSecond,
		Unset: "not paced", Doc: "rate at which the kernel paces each flow (SO_MAX_PACING_RATE)",
		field: func(s *measurement.Spec) any { return &s.PacingBitsPerSecond },
	},
	{
		Name: "send_method", InFile: true, Kinds: copying, Type: Word, Limits: words("copy", "zerocopy"),
		Unset: "the faster", Doc: "how the sender passes bytes to the kernel: send(2) copies them, splice(2) and sendfile(2) are zero-copy; udp: zero-copy only at an unlimited rate",
		field: func(s *measurement.Spec) any { return &s.SendMethod },
	},
	{
		Name: "copy_payload", InFile: true, Native: true, Kinds: copying, Type: Truth,
		Doc:   "the receiver copies the payload to user space, as an application does; otherwise it may discard it in the kernel",
		field: func(s *measurement.Spec) any { return &s.CopyPayload },
	},
	{
		Name: "share_threads", Kinds: streams, Type: Truth,
		Doc:   "the flows share the threads of each end, even if there are few flows; set when many endpoints share a host",
		field: func(s *measurement.Spec) any { return &s.ShareThreads },
	},
	{
		Name: "sender_pause", InFile: true, Native: true, Kinds: of(tcp), Type: Time, Limits: Limits{Least: 1e-6, Most: 0.1}, Unset: "none",
		Doc:   "time that the sending program waits after each 64 KiB, as a slow program does",
		field: func(s *measurement.Spec) any { return &s.SenderPause },
	},
	{
		Name: "sender_burn", InFile: true, Native: true, Kinds: of(tcp), Type: Time, Limits: Limits{Least: 1e-6, Most: 0.1}, Unset: "none",
		Doc:   "CPU time that the sending program takes for each 64 KiB",
		field: func(s *measurement.Spec) any { return &s.SenderBurn },
	},
	{
		Name: "receiver_pause", InFile: true, Native: true, Kinds: of(tcp), Type: Time, Limits: Limits{Least: 1e-6, Most: 0.1}, Unset: "none",
		Doc:   "time that the receiving program waits after each 64 KiB",
		field: func(s *measurement.Spec) any { return &s.ReceiverPause },
	},
	{
		Name: "receiver_burn", InFile: true, Native: true, Kinds: of(tcp), Type: Time, Limits: Limits{Least: 1e-6, Most: 0.1}, Unset: "none",
		Doc:   "CPU time that the receiving program takes for each 64 KiB",
		field: func(s *measurement.Spec) any { return &s.ReceiverBurn },
	},
	{
		Name: "mptcp", InFile: true, Native: true, Flag: "mptcp", Short: "m", Kinds: streams, Type: Truth,
		Doc:   "Multipath TCP (RFC 8684) if both kernels support it; not with pacing or a receive window",
		field: func(s *measurement.Spec) any { return &s.MPTCP },
	},
	{
		Name: "dscp", InFile: true, Flag: "dscp", Shared: true, Kinds: served, Type: DSCP, Limits: Limits{Most: 63},
		Doc:   "differentiated services code point (RFC 2474) of the packets of both ends",
		field: func(s *measurement.Spec) any { return &s.DSCP },
	},
	{
		Name: "source_port", InFile: true, Flag: "cport", Kinds: connected, Type: Whole, Limits: upTo(maxPort),
		Unset: "the kernel's choice", Doc: "source port of the first flow; each further flow takes the next",
		field: func(s *measurement.Spec) any { return &s.SourcePort },
	},
	{
		Name: "device", Flag: "device", Aliases: []string{"bind-dev"}, Shared: true, Kinds: served, Type: Name,
		Unset: "as routed", Doc: "network interface to send from (SO_BINDTODEVICE); same as HOST%DEVICE",
		field: func(s *measurement.Spec) any { return &s.Device },
	},
	{
		Name: "rate", InFile: true, Kinds: packets, Type: Rate, Limits: Limits{Least: 8, Most: quantity.MaxRateBitsPerSecond}, Scaled: true, LeastScaled: LeastRateBitsPerSecond,
		Unset: "as fast as the sender can", Doc: "rate of the UDP payload of all flows together",
		field: func(s *measurement.Spec) any { return &s.RateBitsPerSecond },
	},
	{
		Name: "packet", InFile: true, Kinds: packets, Type: Size, Limits: Limits{Least: MinPacketBytes, Most: MaxDatagramBytes},
		Unset: "what fits the path, with a rate or loss_bound at most 1472", Doc: "UDP payload of a packet",
		field: func(s *measurement.Spec) any { return &s.PacketBytes },
	},
	{
		Name: "gso", InFile: true, Flag: "gso", Kinds: of(udp), Type: Word, Limits: words("on", "off", auto),
		Unset: auto, Doc: "the kernel or the network interface segments large buffers (UDP_SEGMENT); with on, the test fails if this is not possible",
		field: func(s *measurement.Spec) any { return &s.GSO },
	},
	{
		Name: "gro", InFile: true, Flag: "gro", Kinds: of(udp), Type: Word, Limits: words("on", "off", auto),
		Unset: auto, Doc: "the receiving kernel joins packets (UDP_GRO); with on, the test fails if this is not possible",
		field: func(s *measurement.Spec) any { return &s.GRO },
	},
	{
		Name: "loss_bound", InFile: true, Native: true, Flag: "loss-bound", Kinds: packets, Type: Share, Limits: Limits{Least: 1e-9, Most: 0.5},
		Unset: "no search", Doc: "search for the highest rate, up to the given rate, with at most this share of loss",
		field: func(s *measurement.Spec) any { return &s.LossBound },
	},
	{
		Name: "protocol", InFile: true, Kinds: of(tcp, udp), Type: Word, Limits: words(string(measurement.IPerf3)),
		Unset: "hopbench's own", Doc: "protocol between the two ends",
		field: func(s *measurement.Spec) any { return &s.Tool },
	},
	{
		Name: "protocol", InFile: true, Flag: "protocol", Kinds: of(rr, load, trace), Type: Word, Limits: words("tcp", "udp"),
		Except: map[measurement.Kind]Limits{trace: words("tcp", "udp", "icmp")},
		Doc:    "transport of the requests, or of the probes of a trace",
		field:  func(s *measurement.Spec) any { return &s.Protocol },
	},
	{
		Name: "request", InFile: true, Flag: "request", Kinds: asking, Type: Size, Limits: upTo(MaxMessageBytes),
		Doc:   "size of each request",
		field: func(s *measurement.Spec) any { return &s.RequestBytes },
	},
	{
		Name: "response", InFile: true, Flag: "response", Kinds: asking, Type: Size, Limits: upTo(MaxMessageBytes),
		Doc:   "size of each response",
		field: func(s *measurement.Spec) any { return &s.ResponseBytes },
	},
	{
		Name: "requests_per_second", InFile: true, Flag: "requests-per-second", Kinds: clocked, Type: Number, Limits: Limits{Least: 0.001, Most: 10e6},
		Unset: "each response releases the next request", Doc: "open loop: send requests at their intended times, without waiting for responses; latency counts from the intended time",
		field: func(s *measurement.Spec) any { return &s.RequestsPerSecond },
	},
	{
		Name: "in_flight", InFile: true, Flag: "in-flight", Kinds: of(rr), Type: Whole, Limits: upTo(MaxInFlight),
		Doc:   "number of requests waiting for a response at the same time",
		field: func(s *measurement.Spec) any { return &s.InFlight },
	},
	{
		Name: "spin", InFile: true, Flag: "spin", Kinds: clocked, Type: Truth,
		Doc:   "both ends poll instead of sleeping (the server needs --spin, too): latency without the wake-up, at the cost of two whole CPUs",
		field: func(s *measurement.Spec) any { return &s.Spin },
	},
	{
		Name: "colocate", InFile: true, Flag: "colocate", Kinds: of(rr, crr), Type: Truth,
		Doc:   "run both ends, which must be on one host, on one CPU: latency without the wake-up of another CPU; by default they never share one",
		field: func(s *measurement.Spec) any { return &s.Colocate },
	},
	{
		Name: "count", InFile: true, InLength: true, Flag: "count", Short: "c", Kinds: of(ping), Type: Whole, Limits: upTo(1_000_000),
		Doc:   "echo requests",
		field: func(s *measurement.Spec) any { return &s.Count },
	},
	{
		Name: "interval", InFile: true, InLength: true, Kinds: of(ping), Type: Time, Limits: Limits{Least: 100e-6, Most: 3600},
		Doc:   "time from one echo request to the next",
		field: func(s *measurement.Spec) any { return &s.Interval },
	},
	{
		Name: "payload", InFile: true, Kinds: of(ping), Type: Size, Limits: upTo(MaxDatagramBytes),
		Doc:   "ICMP payload",
		field: func(s *measurement.Spec) any { return &s.PayloadBytes },
	},
	{
		Name: "max_hops", InFile: true, Flag: "max-hops", Kinds: of(trace), Type: Whole, Limits: upTo(MaxHops),
		Doc:   "maximum number of hops",
		field: func(s *measurement.Spec) any { return &s.MaxHops },
	},
	{
		Name: "ramp", InFile: true, InLength: true, Kinds: together, Type: Time, Limits: Limits{Least: 0.001, Most: maxSeconds}, Several: true,
		Unset: "all at once", Doc: "several pairs start evenly spread over this time, the first at once, the last at its end; each connects shortly before its start, and the measurement begins after the last start",
		field: func(s *measurement.Spec) any { return &s.Ramp },
	},
	{
		Name: "waves", InFile: true, InLength: true, Kinds: together, Type: Whole, Limits: Limits{Least: 2, Most: MaxPairs}, Several: true,
		Unset: "all at once", Doc: "several pairs start in this number of groups, one every wave_every, as with a ramp",
		field: func(s *measurement.Spec) any { return &s.Waves },
	},
	{
		Name: "wave_every", InFile: true, InLength: true, Kinds: together, Type: Time, Limits: Limits{Least: 0.001, Most: maxSeconds}, Several: true,
		Unset: "all at once", Doc: "time from one wave to the next",
		field: func(s *measurement.Spec) any { return &s.WaveEvery },
	},
	{
		Name: "lead", Kinds: of(tcp), Type: Time, Limits: Limits{Least: 1e-9, Most: maxSeconds},
		Unset: "none", Doc: "unmeasured time before the warm-up; set if other pairs start later",
		field: func(s *measurement.Spec) any { return &s.Lead },
	},
	{
		Name: "pairs", Kinds: every, Type: Whole, Limits: upTo(MaxPairs),
		Unset: "1", Doc: "number of pairs of hosts that run the test at the same time, including this one; they share the limit of stored bins",
		field: func(s *measurement.Spec) any { return &s.Pairs },
	},
	{
		Name: "missing", InFile: true, Kinds: every, Type: Whole, Limits: Limits{Most: maxMissing}, Several: true,
		Doc:   "number of pairs that may return no result, through no fault of the path, in a trial that counts; with more, the trial is repeated",
		field: func(s *measurement.Spec) any { return &s.MissingPairs },
	},
	{
		Name: "timeout", InFile: true, Flag: "timeout", Kinds: waiting, Type: Time, Limits: Limits{Least: 0.001, Most: 60},
		Unset: "500ms, load 3s", Doc: "how long to wait for one probe or response; rr, load: over UDP only",
		field: func(s *measurement.Spec) any { return &s.Timeout },
	},
}
