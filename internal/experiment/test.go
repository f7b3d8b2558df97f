package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Bounds of a test's times and sizes.
const (
	minTestDuration = 10 * time.Millisecond
	maxTestDuration = 24 * time.Hour
	minWarmup       = time.Millisecond
	maxWarmup       = 10 * time.Minute
	minPingInterval = time.Millisecond
	maxPingInterval = time.Hour
	minProbeTimeout = time.Millisecond
	maxProbeTimeout = time.Minute
	// maxMessageBytes keeps a request within one UDP datagram (65507 bytes
	// over IPv4), so that rr means the same over either transport.
	maxMessageBytes = 64_000
	// minPingPayload leaves room for the identification of a reply.
	minPingPayload = 16
	// minPacketBytes leaves room for what a packet of udp and pps carries: the
	// test's cookie, a sequence number, the time it was sent. maxPacketBytes is
	// the largest UDP payload over IPv4.
	minPacketBytes = 32
	maxPacketBytes = 65_507
	// minMSSBytes and maxMSSBytes are what Linux takes for TCP_MAXSEG
	// (TCP_MIN_MSS and MAX_TCP_WINDOW in net/tcp.h).
	minMSSBytes = 88
	maxMSSBytes = 32_767
	// minFileBytes, of each segment, and maxFileBytes bound the file of ftp.
	minFileBytes = 64_000
	maxFileBytes = 10_000_000_000_000
	// maxSegments bounds the segments of a file, each of which has a session of
	// its own.
	maxSegments = 256
	// maxPacketFlows bounds the UDP flows of a test: each has a socket and a
	// thread of its own at either end.
	maxPacketFlows = 1024
	maxPort        = 65_535
)

// KindsOf says which kinds of test a key of FileTest or FileLength applies to;
// a key that is not here applies to all.
func KindsOf(key string) []measurement.Kind {
	const (
		tcp, udp, pps   = measurement.TCP, measurement.UDP, measurement.PPS
		rr, crr, load   = measurement.RR, measurement.CRR, measurement.Load
		ftp             = measurement.FTP
		mtu, ping, hops = measurement.MTU, measurement.Ping, measurement.Trace
	)
	switch key {
	case "tool":
		return []measurement.Kind{tcp, udp}
	case "duration", "max_warmup":
		return []measurement.Kind{tcp, udp, pps, rr, crr, load}
	case "idle":
		return []measurement.Kind{load}
	case "flows":
		return []measurement.Kind{tcp, udp, pps, crr, load, ftp}
	case "direction":
		return []measurement.Kind{tcp, udp, pps, load, ftp}
	case "file":
		return []measurement.Kind{ftp}
	case "send_buffer", "receive_buffer":
		return []measurement.Kind{tcp, udp, pps, load}
	case "mss", "pacing", "mptcp":
		return []measurement.Kind{tcp, load}
	case "send_method", "copy_payload":
		return []measurement.Kind{tcp, udp, load}
	case "dscp":
		return []measurement.Kind{tcp, udp, pps, rr, crr, load, ftp, mtu}
	case "source_port":
		return []measurement.Kind{tcp, udp, pps, rr}
	case "rate", "packet", "loss_bound":
		return []measurement.Kind{udp, pps}
	case "gso", "gro":
		return []measurement.Kind{udp}
	case "protocol":
		return []measurement.Kind{rr, load, hops}
	case "request", "response":
		return []measurement.Kind{rr, crr, load}
	case "requests_per_second":
		return []measurement.Kind{rr, load}
	case "in_flight", "spin":
		return []measurement.Kind{rr}
	case "colocate":
		return []measurement.Kind{rr, crr}
	case "count", "interval", "payload":
		return []measurement.Kind{ping}
	case "timeout":
		return []measurement.Kind{rr, mtu, ping, hops}
	case "max_hops":
		return []measurement.Kind{hops}
	case "full", "quick":
		return []measurement.Kind{tcp, udp, pps, rr, crr, load, ftp, ping}
	}
	return measurement.Kinds()
}

func (l *loader) test(f *FileTest) Test {
	spec := l.spec(f)
	l.applicable(reflect.ValueOf(f).Elem(), spec.Kind, f.Name)
	l.consistent(f, spec)
	l.pingsOpen(spec, &f.Interval, &f.Timeout)
	t := Test{Name: string(f.Name), Title: string(f.Title), Spec: spec.Defaults(), Full: spec.Defaults()}
	if f.Full != nil {
		t.Full = l.length(f, f.Full, "full", spec).Defaults()
	}
	t.Quick = t.Spec
	if f.Quick != nil {
		t.Quick = l.length(f, f.Quick, "quick", spec).Defaults()
	} else if t.Spec.Duration > 0 {
		t.Quick.Duration = min(t.Spec.Duration, measurement.SecondsOf(quickDuration))
	}
	return t
}

// quickDuration is the most that a test of a quick run measures, where the file
// does not say.
const quickDuration = 500 * time.Millisecond

// spec reads what a test says, each value by itself.
func (l *loader) spec(f *FileTest) measurement.Spec {
	return measurement.Spec{
		Kind:      measurement.Kind(f.Kind),
		Tool:      measurement.Tool(f.Tool),
		Duration:  l.between(&f.Duration, minTestDuration, maxTestDuration),
		MaxWarmup: l.between(&f.MaxWarmup, minWarmup, maxWarmup),
		Flows:     f.Flows, Direction: measurement.Direction(f.Direction),
		FileBytes:    l.file64(&f.File),
		IdleDuration: l.between(&f.Idle, minTestDuration, maxTestDuration),

		SendBufferBytes:     l.window(&f.SendBuffer, "send buffer"),
		ReceiveBufferBytes:  l.window(&f.ReceiveBuffer, "receive buffer"),
		MSSBytes:            l.size(&f.MSS, minMSSBytes, maxMSSBytes),
		PacingBitsPerSecond: l.rate(&f.Pacing),
		SendMethod:          measurement.SendMethod(f.SendMethod),
		CopyPayload:         f.CopyPayload, MPTCP: f.MPTCP,
		DSCP: f.DSCP, SourcePort: f.SourcePort,

		RateBitsPerSecond: l.rate(&f.Rate),
		PacketBytes:       l.size(&f.Packet, minPacketBytes, maxPacketBytes),
		GSO:               measurement.Switch(f.GSO), GRO: measurement.Switch(f.GRO),
		LossBound: l.share(&f.LossBound),

		Protocol:          measurement.Protocol(f.Protocol),
		RequestBytes:      l.size(&f.Request, 1, maxMessageBytes),
		ResponseBytes:     l.size(&f.Response, 1, maxMessageBytes),
		RequestsPerSecond: float64(f.RequestsPerSecond),
		InFlight:          f.InFlight, Spin: f.Spin, Colocate: f.Colocate,

		Count: f.Count, MaxHops: f.MaxHops,
		Interval:     l.between(&f.Interval, minPingInterval, maxPingInterval),
		PayloadBytes: l.size(&f.Payload, minPingPayload, maxMessageBytes),
		Timeout:      l.between(&f.Timeout, minProbeTimeout, maxProbeTimeout),
	}
}

// length is the spec of a test at another length, which stands under the key.
func (l *loader) length(f *FileTest, other *FileLength, key string, spec measurement.Spec) measurement.Spec {
	if slices.Contains(KindsOf(key), spec.Kind) {
		l.applicable(reflect.ValueOf(other).Elem(), spec.Kind, f.Name)
	}
	out := spec
	replace(&out.Duration, l.between(&other.Duration, minTestDuration, maxTestDuration))
	replace(&out.MaxWarmup, l.between(&other.MaxWarmup, minWarmup, maxWarmup))
	replace(&out.IdleDuration, l.between(&other.Idle, minTestDuration, maxTestDuration))
	replace(&out.Count, other.Count)
	replace(&out.FileBytes, l.file64(&other.File))
	replace(&out.Interval, l.between(&other.Interval, minPingInterval, maxPingInterval))
	if out.Interval < spec.Interval {
		l.pingsOpen(out, &other.Interval, &f.Timeout)
	}
	return out
}

// consistent checks the values of a test against each other.
func (l *loader) consistent(f *FileTest, spec measurement.Spec) {
	spec = spec.Defaults()
	switch spec.Kind {
	case measurement.RR, measurement.Load:
		l.exchange(f, spec)
	case measurement.UDP, measurement.PPS:
		l.packets(f, spec)
	case measurement.FTP:
		l.transfer(f, spec)
	}
	if spec.Colocate && !spec.Placed() {
		l.wrong(&f.Colocate, "leave colocate out", "test %q: %s", f.Name, measurement.NotPlaced)
	}
	flows := max(spec.Flows, 1)
	if spec.Direction == measurement.Both {
		flows *= 2
	}
	if last := spec.SourcePort + flows - 1; spec.SourcePort > 0 && last > maxPort {
		l.wrong(&f.SourcePort, fmt.Sprintf("write at most %d", maxPort-flows+1),
			"the last of the %d flows of test %q would have source port %d", flows, f.Name, last)
	}
}

// exchange checks what asks and answers.
func (l *loader) exchange(f *FileTest, spec measurement.Spec) {
	if spec.Protocol == measurement.OverICMP {
		l.wrong(&f.Protocol, "write tcp or udp, or use kind: ping", "a test of kind %s cannot be over icmp", spec.Kind)
	}
	if spec.Kind != measurement.RR {
		return
	}
	if l.written(&f.InFlight) && l.written(&f.RequestsPerSecond) {
		l.misplaced(&f.InFlight, "leave one of them out",
			"test %q has both in_flight, with which an answer releases the next request, and requests_per_second, with which a clock does", f.Name)
	}
	if l.written(&f.Timeout) && spec.Protocol == measurement.OverTCP {
		l.misplaced(&f.Timeout, "leave it out, or write protocol: udp", "over tcp no answer is lost, so timeout does not apply to test %q", f.Name)
	}
}

// packets checks what sends datagrams.
func (l *loader) packets(f *FileTest, spec measurement.Spec) {
	if spec.Direction == measurement.Both {
		l.wrong(&f.Direction, "write send or receive, and have a test for each", "a test of kind %s cannot send both ways at once", spec.Kind)
	}
	if spec.Flows > maxPacketFlows {
		l.wrong(&f.Flows, fmt.Sprintf("write at most %d", maxPacketFlows), "a test of kind %s cannot have %d flows", spec.Kind, spec.Flows)
	}
	if l.written(&f.LossBound) && f.LossBound != "" && spec.LossBound == 0 {
		l.wrong(&f.LossBound, "write a small share, as in 0.1%, or leave it out for no search", "no search can tell a loss of 0 from a loss too rare to see")
	}
	if l.written(&f.LossBound) && spec.Tool == measurement.IPerf3 {
		l.misplaced(&f.LossBound, "leave loss_bound or tool out", "iperf3 does not search for a rate, so loss_bound does not apply to test %q", f.Name)
	}
}

// transfer checks what moves a file.
func (l *loader) transfer(f *FileTest, spec measurement.Spec) {
	if spec.Direction == measurement.Both {
		l.wrong(&f.Direction, "write receive or send, and have a test for each", "a file goes one way, so test %q cannot send both ways at once", f.Name)
	}
	if spec.Direction == measurement.Send && spec.Flows > 1 {
		l.wrong(&f.Flows, "leave it out, or write direction: receive", "a file is stored in one piece (STOR), so test %q cannot have %d segments", f.Name, spec.Flows)
	}
	if spec.Flows > maxSegments {
		l.wrong(&f.Flows, fmt.Sprintf("write at most %d", maxSegments), "a file cannot have %d segments", spec.Flows)
		return
	}
	least := int64(math.Ceil(minFileBytes * float64(spec.Flows) * l.scale))
	enough := func(at any, bytes int64) {
		if bytes > 0 && bytes < least {
			l.wrong(at, "write file: "+FormatBytes(least)+" at least", "a file of %s has segments of less than %s%s, too short for a rate", FormatBytes(bytes), FormatBytes(minFileBytes), l.atScale())
		}
	}
	if l.written(&f.File) {
		enough(&f.File, spec.FileBytes)
	} else {
		enough(&f.Kind, spec.FileBytes)
	}
	for _, other := range []*FileLength{f.Full, f.Quick} {
		if other != nil {
			enough(&other.File, parsed(ParseBytes, other.File))
		}
	}
}

// bothWays checks that a test that sends both ways has one receive window and
// one congestion control to use: those of either endpoint.
func (l *loader) bothWays() {
	if len(l.file.Endpoints) != 2 {
		return // reported where it was read
	}
	a, b := &l.file.Endpoints[0], &l.file.Endpoints[1]
	for i := range l.file.Tests {
		f := &l.file.Tests[i]
		streams := f.Kind == string(measurement.TCP) || f.Kind == string(measurement.Load)
		if !streams || f.Direction != string(measurement.Both) {
			continue
		}
		const mend = "give both endpoints the same, or have a test for each direction"
		if parsed(ParseBytes, a.ReceiveWindow) != parsed(ParseBytes, b.ReceiveWindow) {
			l.wrong(&f.Direction, mend, "test %q sends both ways, and the endpoints differ in receive_window", f.Name)
		}
		if a.CongestionControl != b.CongestionControl {
			l.wrong(&f.Direction, mend, "test %q sends both ways, and the endpoints differ in congestion_control", f.Name)
		}
	}
}

// pingsOpen checks that the 16-bit sequence numbers of echo requests (RFC 792)
// cannot come round while an answer may still arrive.
func (l *loader) pingsOpen(spec measurement.Spec, interval, timeout *TimeText) {
	spec = spec.Defaults()
	if spec.Kind != measurement.Ping || spec.Interval <= 0 || spec.Timeout/spec.Interval < 1<<15 {
		return
	}
	at := timeout
	if !l.written(at) {
		at = interval
	}
	l.wrong(at, "shorten the timeout", "a timeout of %s leaves %.0f requests open at an interval of %s",
		FormatDuration(spec.Timeout.Duration()), float64(spec.Timeout/spec.Interval), FormatDuration(spec.Interval.Duration()))
}

// replace sets a field unless the new value says nothing.
func replace[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// applicable reports keys that mean nothing to the kind of test.
func (l *loader) applicable(v reflect.Value, kind measurement.Kind, test NameText) {
	if kind == "" {
		return
	}
	keys := keysOf(v.Type())
	var fitting []string
	for _, key := range keys {
		if key != "name" && key != "title" && key != "kind" && slices.Contains(KindsOf(key), kind) {
			fitting = append(fitting, key)
		}
	}
	for i, key := range keys {
		field := v.Field(i).Addr().Interface()
		if !l.written(field) || slices.Contains(KindsOf(key), kind) {
			continue
		}
		mend := "leave it out"
		if len(fitting) > 0 {
			mend += "; it can have " + oneOf(fitting)
		}
		l.misplaced(field, mend, "%s does not apply to test %q of kind %s", key, test, kind)
	}
}

// between reads a time and checks its bounds.
func (l *loader) between(field *TimeText, least, most time.Duration) measurement.Seconds {
	d := parsed(ParseDuration, *field)
	if *field != "" && (d < least || d > most) {
		l.wrong(field, "write a time from "+FormatDuration(least)+" to "+FormatDuration(most), "time %q is out of bounds", *field)
	}
	return measurement.SecondsOf(d)
}

// file64 reads the size of a file, which is scaled, and checks its bounds.
func (l *loader) file64(field *SizeText) int64 {
	n := parsed(ParseBytes, *field)
	if *field != "" && (n < minFileBytes || n > maxFileBytes) {
		l.wrong(field, "write a size from "+FormatBytes(minFileBytes)+" to "+FormatBytes(maxFileBytes), "size %q is out of bounds", *field)
		return 0
	}
	return n
}

// size reads a size and checks its bounds, in bytes.
func (l *loader) size(field *SizeText, least, most int64) int {
	n := parsed(ParseBytes, *field)
	if *field != "" && (n < least || n > most) {
		l.wrong(field, "write a size from "+FormatBytes(least)+" to "+FormatBytes(most), "size %q is out of bounds", *field)
		return 0
	}
	return int(n)
}
