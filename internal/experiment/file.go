package experiment

import (
	"reflect"
)

// This file is the experiment file as Go types: its keys (json tags), what
// may be left out (omitempty), its closed lists and its bounds (jsonschema
// tags). The decoder obeys these tags, and the JSON Schema for editors is
// generated from them, with the comments as its descriptions.

//go:generate go run ./schemagen -o ../../experiments/experiment.schema.json

// File is an experiment: some paths between two endpoints, one of them the
// baseline, and the tests that every path gets in every block.
type File struct {
	// Version of this file format.
	Format string `json:"format" jsonschema:"enum=hopbench.experiment/1"`
	// Name of the experiment, used for run folders.
	Name NameText `json:"name" jsonschema:"example=my-experiment"`
	// One line for people.
	Title LineText `json:"title,omitempty"`
	// What the experiment is about, for the report.
	Description ProseText `json:"description,omitempty"`
	// How many times smaller than the published setting the testbed is, as in
	// 1:10. Rates and windows are divided by it; times are not.
	Scale ScaleText `json:"scale,omitempty"`
	// How the parameters of the hops were derived, for the report.
	Model ProseText `json:"model,omitempty"`
	// The two hosts at the ends of every path.
	Endpoints []FileEndpoint `json:"endpoints" jsonschema:"minItems=2,maxItems=2"`
	// Name of the endpoint that paths start at.
	Source NameText `json:"source" jsonschema:"example=vm1"`
	// Name of the endpoint that paths lead to.
	Destination NameText `json:"destination" jsonschema:"example=vm2"`
	// Pairs of a source and a destination like these two, which do every test
	// at the same time; 1 when left out.
	Pairs int `json:"pairs,omitempty" jsonschema:"minimum=1,maximum=100"`
	// Name of the path that all others are compared with.
	Baseline NameText `json:"baseline" jsonschema:"example=direct"`
	// How many times every path gets every test. At least 6 are needed to
	// claim anything; 10 when left out.
	Blocks int `json:"blocks,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// The paths to compare.
	Paths []FilePath `json:"paths" jsonschema:"minItems=2,maxItems=16"`
	// What is measured on every path.
	Tests []FileTest `json:"tests" jsonschema:"minItems=1,maxItems=32"`
	// Published figures to hold the measurement against.
	Published *FilePublished `json:"published,omitempty"`
}

// FileEndpoint is a host at an end of every path.
type FileEndpoint struct {
	// Name of the endpoint.
	Name NameText `json:"name" jsonschema:"example=vm1"`
	// Metered rate of all that the endpoint sends; unmetered when left out.
	EgressRate RateText `json:"egress_rate,omitempty"`
	// Largest receive window that the endpoint advertises per flow; the
	// kernel's own tuning when left out.
	ReceiveWindow SizeText `json:"receive_window,omitempty"`
	// Kernel name of the congestion control of the endpoint's flows, such as
	// cubic or bbr; cubic in a lab and otherwise the host's own when left out.
	CongestionControl AlgorithmText `json:"congestion_control,omitempty"`
	// Whether the host's software switch stands between the endpoint's interfaces
	// and the network; false when left out.
	VSwitch bool `json:"vswitch,omitempty"`
	// Number of interfaces over which its paths are spread; they share the
	// egress. 1 when left out.
	NICs int `json:"nics,omitempty" jsonschema:"minimum=1,maximum=8"`
}

// FilePath is a way from the source to the destination.
type FilePath struct {
	// Name of the path.
	Name NameText `json:"name" jsonschema:"example=one-appliance"`
	// One line for people.
	Title LineText `json:"title,omitempty"`
	// What traffic crosses, in order from the source; left out in a variant of
	// another path.
	Hops []FileHop `json:"hops,omitempty" jsonschema:"minItems=1,maxItems=32"`
	// Name of the path whose addresses, hops and tunnel this one has too, but
	// for the hops that it bypasses.
	VariantOf NameText `json:"variant_of,omitempty"`
	// Names of the hops that this variant of another path bypasses.
	Bypass []NameText `json:"bypass,omitempty" jsonschema:"minItems=1,maxItems=32"`
	// How long after switching nothing is measured; 200ms when left out.
	Settle TimeText `json:"settle,omitempty"`
	// Encapsulation between the two endpoints, over all hops.
	Tunnel *FileTunnel `json:"tunnel,omitempty"`
	// Whether a software switch stands between each endpoint and this path. What
	// the endpoints say when left out.
	VSwitch bool `json:"vswitch,omitempty"`
}

// FileTunnel is an encapsulation between the two endpoints of a path.
type FileTunnel struct {
	// Kind of encapsulation.
	Type string `json:"type" jsonschema:"enum=vxlan,enum=wireguard"`
	// VXLAN network identifier; 1 when left out.
	ID int `json:"id,omitempty" jsonschema:"minimum=1,maximum=16777215"`
	// UDP port of the encapsulation; 4789 for vxlan and 51820 for wireguard when
	// left out.
	Port int `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// MTU inside; what the path leaves when left out.
	MTU SizeText `json:"mtu,omitempty"`
}

// FileTest is a measurement that every path gets in every block.
type FileTest struct {
	// Name of the test.
	Name NameText `json:"name" jsonschema:"example=flows-1"`
	// One line for people.
	Title LineText `json:"title,omitempty"`
	// What it measures: tcp is throughput, udp datagram throughput and loss,
	// pps small packets per second, rr request/response latency, crr new
	// connections per second, load latency on an idle and on a full path, ftp
	// the transfer of a file, mtu the largest packet, ping ICMP echo, trace the
	// hops of the path.
	Kind string `json:"kind" jsonschema:"enum=tcp,enum=udp,enum=pps,enum=rr,enum=crr,enum=load,enum=ftp,enum=mtu,enum=ping,enum=trace"`
	// Whose protocol the ends of tcp and udp speak: hopbench's own when left
	// out, or iperf3's.
	Tool string `json:"tool,omitempty" jsonschema:"enum=iperf3-wire"`
	// Measured time; 10s when left out for tcp, udp, pps and load (under the
	// load), 1s for rr and crr.
	Duration TimeText `json:"duration,omitempty"`
	// Longest discarded start of tcp and load (2s when left out), discarded
	// start of udp and pps (200ms), rr and crr (100ms); it comes before the
	// duration.
	MaxWarmup TimeText `json:"max_warmup,omitempty"`
	// How long load takes the latency of the idle path first; 1s when left out.
	Idle TimeText `json:"idle,omitempty"`
	// Parallel connections of tcp and load (each way when both send), UDP
	// flows of udp and pps (at most 1024), connections in progress at a time of
	// crr, segments of the file that ftp receives (at most 256); 1 when left
	// out, 8 for load.
	Flows int `json:"flows,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// Who sends in tcp, udp, pps, load and ftp, seen from the source: send (when
	// left out, but for ftp), receive (when left out for ftp), or both, which
	// udp, pps and ftp cannot.
	Direction string `json:"direction,omitempty" jsonschema:"enum=send,enum=receive,enum=both"`
	// Size of the file of ftp; 1GB when left out.
	File SizeText `json:"file,omitempty"`
	// Send buffer of each socket; the kernel's own tuning when left out (for
	// UDP, the largest allowed).
	SendBuffer SizeText `json:"send_buffer,omitempty"`
	// Receive buffer of each socket; the kernel's own tuning when left out (for
	// UDP, the largest allowed).
	ReceiveBuffer SizeText `json:"receive_buffer,omitempty"`
	// Largest TCP segment of both ends; what the path gives when left out.
	MSS SizeText `json:"mss,omitempty"`
	// Rate at which the kernel paces each TCP flow; not paced when left out.
	Pacing RateText `json:"pacing,omitempty"`
	// How the sender hands bytes to the kernel: copy is send(2), with zerocopy it
	// refers to them (splice(2), sendfile(2)); whichever is faster when left out.
	SendMethod string `json:"send_method,omitempty" jsonschema:"enum=copy,enum=zerocopy"`
	// Whether the receiver copies the payload to user space, as an application
	// would; false when left out.
	CopyPayload bool `json:"copy_payload,omitempty"`
	// Whether to use Multipath TCP where both kernels have it; false when left
	// out.
	MPTCP bool `json:"mptcp,omitempty"`
	// Differentiated services code point of the packets of both ends; 0 when
	// left out.
	DSCP int `json:"dscp,omitempty" jsonschema:"minimum=0,maximum=63"`
	// Source port of the first flow, each further flow takes the next; the
	// kernel's choice when left out.
	SourcePort int `json:"source_port,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Rate of the UDP payload of all flows together; as fast as the sender can
	// when left out.
	Rate RateText `json:"rate,omitempty"`
	// UDP payload of a packet; what fits the path for udp, 64B for pps when
	// left out.
	Packet SizeText `json:"packet,omitempty"`
	// Whether large UDP buffers are cut into packets by the kernel or the
	// network interface; on where there is such an offload when left out.
	GSO string `json:"gso,omitempty" jsonschema:"enum=on,enum=off"`
	// Whether the receiving kernel joins UDP packets; on where there is such an
	// offload when left out.
	GRO string `json:"gro,omitempty" jsonschema:"enum=on,enum=off"`
	// Largest loss that counts as none: searches for the highest rate that
	// loses no larger share.
	LossBound FractionText `json:"loss_bound,omitempty"`
	// Transport of rr (tcp, udp; tcp when left out), of load's requests (tcp,
	// udp; udp when left out) and of trace's probes (tcp, udp, icmp; tcp when
	// left out).
	Protocol string `json:"protocol,omitempty" jsonschema:"enum=tcp,enum=udp,enum=icmp"`
	// Size of the request of rr and crr (1B when left out) and load (64B).
	Request SizeText `json:"request,omitempty"`
	// Size of the response of rr and crr (1B when left out) and load (64B).
	Response SizeText `json:"response,omitempty"`
	// Requests that leave at their intended times, whether or not answers
	// came; rr sends the next when an answer came, and load 500 a second, when
	// left out.
	RequestsPerSecond int `json:"requests_per_second,omitempty" jsonschema:"minimum=1,maximum=10000000"`
	// Requests of rr without an answer at a time; 1 when left out.
	InFlight int `json:"in_flight,omitempty" jsonschema:"minimum=1,maximum=4096"`
	// Whether both ends of rr poll instead of sleeping until a message comes;
	// false when left out.
	Spin bool `json:"spin,omitempty"`
	// Echo requests of ping; 20 when left out.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Time from one echo request of ping to the next; 1s when left out.
	Interval TimeText `json:"interval,omitempty"`
	// ICMP payload of ping; 56B when left out.
	Payload SizeText `json:"payload,omitempty"`
	// Hops after which trace gives up; 30 when left out.
	MaxHops int `json:"max_hops,omitempty" jsonschema:"minimum=1,maximum=64"`
	// How long one answer is waited for: 1s when left out for ping and trace,
	// 200ms for mtu; for rr over UDP too.
	Timeout TimeText `json:"timeout,omitempty"`
	// What differs when the run is asked for the published durations.
	Full *FileLength `json:"full,omitempty"`
	// What differs when the run is asked to be quick; 500 ms of measured time at
	// most when left out.
	Quick *FileLength `json:"quick,omitempty"`
}

// FileLength is what differs in a test at another length.
type FileLength struct {
	// Measured time.
	Duration TimeText `json:"duration,omitempty"`
	// Discarded start.
	MaxWarmup TimeText `json:"max_warmup,omitempty"`
	// Time of load before the load.
	Idle TimeText `json:"idle,omitempty"`
	// Echo requests of ping.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Time from one echo request of ping to the next.
	Interval TimeText `json:"interval,omitempty"`
	// Size of the file of ftp.
	File SizeText `json:"file,omitempty"`
}

// FilePublished are figures to hold the measurement against.
type FilePublished struct {
	// Where the figures come from, in words.
	Source LineText `json:"source"`
	// The published values.
	Figures []FileFigure `json:"figures" jsonschema:"minItems=1,maxItems=1000"`
	// What the published study left open, one sentence each.
	Open []ProseText `json:"open,omitempty" jsonschema:"maxItems=32"`
}

// FileFigure is one published value.
type FileFigure struct {
	// Row of the published table, such as E5.1.
	ID LineText `json:"id" jsonschema:"example=E5.1"`
	// Name of the path it was measured on.
	Path NameText `json:"path" jsonschema:"example=one-appliance"`
	// Name of the test that measures the same here.
	Test NameText `json:"test" jsonschema:"example=flows-1"`
	// Name of the metric, which ends in its unit.
	Metric string `json:"metric"`
	// The value at published scale, in the metric's unit: 12.0Gbit, 2.783ms,
	// 64kB, 1% or, for counts, a plain number.
	Value ValueText `json:"value"`
	// By what share of it the measured value may be off, either way; in a lab,
	// the ratio of the path to the baseline. Nothing is judged when left out.
	Tolerance FractionText `json:"tolerance,omitempty"`
	// A remark for the report.
	Note LineText `json:"note,omitempty"`
}

// The kinds of text in an experiment file.
type (
	// NameText names something: lower-case letters, digits and hyphens.
	NameText string
	// AlgorithmText is the kernel's name of a congestion control.
	AlgorithmText string
	// LineText is one line for people.
	LineText string
	// ProseText is text for people, of any number of lines.
	ProseText string
	// RateText is a rate with its unit.
	RateText string
	// TimeText is a time with its unit.
	TimeText string
	// SizeText is a size with its unit.
	SizeText string
	// FractionText is a share, in percent or as a number from 0 to 1.
	FractionText string
	// ScaleText is a scale such as 1:10.
	ScaleText string
	// ValueText is a quantity whose unit its neighbour, the metric, decides.
	ValueText string
)

// Lengths of text.
const (
	maxName  = 40
	maxLine  = 300
	maxProse = 10_000
)

// namePattern is what a NameText looks like. Names become parts of trial ids,
// file names and host names.
const namePattern = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`

// algorithmPattern is what an AlgorithmText looks like; the kernel's
// TCP_CA_NAME_MAX is 16 with the closing zero.
const algorithmPattern = `^[a-z0-9_]{1,15}$`

// TextRule is how a kind of text looks, for the JSON Schema.
type TextRule struct {
	Pattern   string // empty for text for people
	MaxLength uint64
	Example   string
	// Number says that a plain YAML number is fine too.
	Number bool
	// Enum lists the only values, empty for any.
	Enum []string
}

// TextRules gives the rule of every kind of text.
func TextRules() map[reflect.Type]TextRule {
	const number = `[0-9]+(\.[0-9]+)?`
	return map[reflect.Type]TextRule{
		reflect.TypeFor[HopType]():       {Enum: hopTypeNames()},
		reflect.TypeFor[NameText]():      {Pattern: namePattern, MaxLength: maxName},
		reflect.TypeFor[AlgorithmText](): {Pattern: algorithmPattern, MaxLength: 15, Example: "cubic"},
		reflect.TypeFor[LineText]():      {MaxLength: maxLine},
		reflect.TypeFor[ProseText]():     {MaxLength: maxProse},
		reflect.TypeFor[RateText]():      {Pattern: `^` + number + `[kMGT]?bit(/s)?$`, MaxLength: maxQuantityText, Example: "1.2Gbit"},
		reflect.TypeFor[TimeText]():      {Pattern: `^(` + number + `(ns|us|µs|μs|ms|s|m|h))+$`, MaxLength: maxQuantityText, Example: "850us"},
		reflect.TypeFor[SizeText]():      {Pattern: `^` + number + `([kMGT]|[KMGT]i)?B$`, MaxLength: maxQuantityText, Example: "64kB"},
		reflect.TypeFor[FractionText]():  {Pattern: `^` + number + `%?$`, MaxLength: maxQuantityText, Example: "1%", Number: true},
		reflect.TypeFor[ScaleText]():     {Pattern: `^1:` + number + `$`, MaxLength: maxQuantityText, Example: "1:10"},
		reflect.TypeFor[ValueText]():     {Pattern: `^` + number + `[A-Za-zµμ%/]*$`, MaxLength: maxQuantityText, Example: "12.0Gbit", Number: true},
	}
}
