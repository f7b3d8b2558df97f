package udp

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// The rate is of the packets that were sent in the measured time, whenever they arrive:
// a path of any delay that loses one of ten has nine tenths of what was sent. Where a
// queue spacingFactored them, it is over the time that they took.
func TestGoodputIsOfWhatWasSentInTheWindow(t *testing.T) {
	const size, spacing = 500, time.Millisecond
	for name, c := range map[string]struct {
		delay         time.Duration
		spacingFactor float64 // of the spacing at the receiver
		want          float64 // packets a second
	}{
		"no delay":   {0, 1, 900},
		"long delay": {150 * time.Millisecond, 1, 900},
		"a queue":    {0, 1.5, 600},
	} {
		spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: size, MaxWarmup: 0.1, Duration: 0.5, CopyPayload: true}.Defaults()
		bins, width := session.BinsOf(spec)
		cookie := make([]byte, protocol.CookieBytes)
		r := &receiver{cookie: cookie, width: width, bytes: make([]int64, bins), packets: make([]int64, bins), conn: &sockets.Conn{}}
		s := &sender{warmup: spec.MaxWarmup.Duration(), end: session.Planned(spec)}
		packet := make([]byte, size)
		var sent protocol.Sent
		for i := range 800 {
			at := time.Duration(i) * spacing
			phase := s.phase(at)
			sent.Bytes += size
			if phase == phaseMeasured {
				sent.MeasuredPackets++
			}
			if i%10 == 3 {
				continue
			}
			arrival := time.Duration(float64(at)*c.spacingFactor) + c.delay
			putData(packet, phase, uint64(i), int64(at))
			var sum arrivals
			r.packet(&sum, packet, size, int64(arrival))
			r.add(sum, arrival)
		}
		sent.PacketBytes = size
		f := &flow{Link: probetest.HonestLink(), udp: &sockets.Conn{}, sent: sent, received: r.received(sent, 0)}
		req := session.Request{Spec: spec}
		out, err := (&test{req: req, flows: []*flow{f}}).outcome(nil, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		m := out.Metrics
		if got := m["goodput_bits_per_second"] / 8 / size; got < c.want*0.995 || got > c.want*1.005 || m["received_packets_per_second"] != got {
			t.Errorf("%s: %v packets a second, want %v: %v", name, got, c.want, m)
		}
		if m["loss_fraction"] != 0.1 || m["sent_bits_per_second"] != 1000*size*8 {
			t.Errorf("%s: loss %v of %v bit/s", name, m["loss_fraction"], m["sent_bits_per_second"])
		}
		if queue := c.spacingFactor > 1; queue != strings.Contains(strings.Join(out.Facts, "; "), "a queue on the path grew") {
			t.Errorf("%s: facts %q", name, out.Facts)
		}
	}
}

// Of a low rate a packet more or less is some per cent, and no sign of a host that cannot keep to
// it. One that cannot may be busy, or wait for room in the queue of its interface.
func TestSenderThatMissedItsRate(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		flows   int
		packets float64 // in a second
		missed  bool
	}{
		{500e3, 1, 42, false}, // of 42.5
		{500e3, 1, 41, true},
		{2e6, 16, 160, false}, // of 10.6 in each flow
		{2e6, 16, 150, true},
		{1e9, 1, 84300, false}, // of 84918
		{1e9, 1, 84000, true},
		{0, 1, 0, false},
	} {
		const size = 1472
		sum := packetSum{sent: c.packets, sentBits: c.packets * size * 8, size: size}
		facts := sum.facts(measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: c.rate, Flows: c.flows, Duration: 1})
		if got := strings.Contains(strings.Join(facts, "; "), "or its interface takes no more"); got != c.missed {
			t.Errorf("%v packets at %v bit/s in %d flows: %q", c.packets, c.rate, c.flows, facts)
		}
	}
}

// Packets that the path holds back, so that others overtake them, are no queue that grew.
func TestOvertakenPacketsAreNoQueue(t *testing.T) {
	const size, late = 500, 80 * time.Millisecond
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: size, MaxWarmup: 0.1, Duration: 0.5, CopyPayload: true}.Defaults()
	bins, width := session.BinsOf(spec)
	cookie := make([]byte, protocol.CookieBytes)
	r := &receiver{cookie: cookie, width: width, bytes: make([]int64, bins), packets: make([]int64, bins), conn: &sockets.Conn{}}
	s := &sender{warmup: spec.MaxWarmup.Duration(), end: session.Planned(spec)}
	type coming struct {
		at, sent time.Duration
		sequence uint64
	}
	var all []coming
	for i := range 610 {
		sent := time.Duration(i) * time.Millisecond
		at := sent
		if i%20 == 17 {
			at += late
		}
		all = append(all, coming{at, sent, uint64(i)})
	}
	slices.SortStableFunc(all, func(a, b coming) int { return cmp.Compare(a.at, b.at) })
	packet := make([]byte, size)
	sent := protocol.Sent{PacketBytes: size, Bytes: 610 * size, MeasuredPackets: 500}
	for _, c := range all {
		putData(packet, s.phase(c.sent), c.sequence, int64(c.sent))
		var sum arrivals
		r.packet(&sum, packet, size, int64(c.at))
		r.add(sum, c.at)
	}
	f := &flow{Link: probetest.HonestLink(), udp: &sockets.Conn{}, sent: sent, received: r.received(sent, 0)}
	out, err := (&test{req: session.Request{Spec: spec}, flows: []*flow{f}}).outcome(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m := out.Metrics; m["goodput_bits_per_second"] != 1000*size*8 || m["loss_fraction"] != 0 || m["reordered_fraction"] != 0.05 || len(out.Facts) > 1 {
		t.Errorf("%v %q", m, out.Facts)
	}
}

// A receiver that reads late, on a busy host, does not make a queue on the path of that, where
// the kernel says when packets came.
func TestPacketsThatAreReadLateAreNoQueue(t *testing.T) {
	const size, stall = 500, 150 * time.Millisecond
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: size, MaxWarmup: 0.1, Duration: 0.5, CopyPayload: true}.Defaults()
	bins, width := session.BinsOf(spec)
	cookie := make([]byte, protocol.CookieBytes)
	r := &receiver{cookie: cookie, width: width, bytes: make([]int64, bins), packets: make([]int64, bins), conn: &sockets.Conn{}, start: time.Now(), stamped: true}
	s := &sender{warmup: spec.MaxWarmup.Duration(), end: session.Planned(spec)}
	packet := make([]byte, size)
	for i := range 600 {
		sent := time.Duration(i) * time.Millisecond
		read := sent
		if i >= 500 {
			read = 600*time.Millisecond + stall
		}
		putData(packet, s.phase(sent), uint64(i), int64(sent))
		var sum arrivals
		r.packet(&sum, packet, size, r.start.UnixNano()+int64(sent))
		r.add(sum, read)
	}
	sent := protocol.Sent{PacketBytes: size, Bytes: 600 * size, MeasuredPackets: 500}
	for step, took := range map[time.Duration]measurement.Seconds{0: 0.499, time.Second: 0} { // nobody knows how long it took by a clock that was set
		if got := r.received(sent, step).Packets.ArrivalTime; got != took {
			t.Errorf("with a clock that was set by %v, they took %v s to arrive, want %v", step, got, took)
		}
	}
}

// Where a queue of one flow grew, the others are as fast as they were.
func TestRatesAreOfEachFlow(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.UDP, Flows: 2, Duration: 1}.Defaults()
	sum := new(packetSum)
	for _, took := range []measurement.Seconds{0.999, 1.998} { // from the first of 1000 to the last
		sum.add(&flow{
			sent:     protocol.Sent{PacketBytes: 1000},
			received: protocol.Received{Packets: &protocol.Packets{Sent: 1000, Received: 1000, ReceivedBytes: 1e6, ArrivalTime: took}},
		}, spec)
	}
	out := measurement.Outcome{Metrics: measurement.Metrics{}}
	sum.fill(&out, spec)
	if m := out.Metrics; m["received_packets_per_second"] != 1500 || m["goodput_bits_per_second"] != 12e6 {
		t.Errorf("%v", m)
	}
}

// What a path damages counts as dropped by the socket, whose buffer was not full.
func TestDamagedPacketsAreNoFullBuffer(t *testing.T) {
	for _, c := range []struct {
		name     string
		receiver measurement.End
		want     float64
	}{
		{"damaged alone", measurement.End{DropsCounted: true, Drops: []measurement.Drop{{Place: "veth receive drops", Packets: 50}}}, 0},
		{"a full buffer, too", measurement.End{DropsCounted: true, Drops: []measurement.Drop{{Place: "UDP receive buffer", Packets: 30}, {Place: "UDP memory (IPv6)", Packets: 1}}}, 31},
		{"other sockets lost more", measurement.End{DropsCounted: true, Drops: []measurement.Drop{{Place: "UDP receive buffer (IPv6)", Packets: 900}}}, 40},
		{"not counted", measurement.End{}, 40},
	} {
		sum := &packetSum{drops: 40}
		if sum.undamaged(c.receiver); sum.drops != c.want {
			t.Errorf("%s: %v, want %v", c.name, sum.drops, c.want)
		}
	}
}

// A queue that the control connection does not share may hold packets for seconds after the
// sender has told how many there are. As long as they come they are not lost.
func TestPacketsThatStillComeAreWaitedFor(t *testing.T) {
	const end, sent = 2 * time.Second, 100
	for _, c := range []struct {
		name             string
		received         int64
		told, last, at   time.Duration
		drained, becomes bool // the last: those that are missing become lost, with a fact
		apart            time.Duration
		copies           int64
	}{
		{"all came", sent, end, end, end, true, false, 0, 0},
		{"all came, and copies", sent, end, end, end + drainQuiet, false, false, 0, 3},
		{"no more copies", sent, end, end, end + drainQuiet + drainTick, true, false, 0, 3},
		{"copies without an end", sent, end, end + drainLongest, end + drainLongest + drainTick, true, false, 0, 3},
		{"just told", 90, end + time.Second, end, end + time.Second + drainQuiet, false, false, 0, 0},
		{"quiet", 90, end, end + time.Second, end + time.Second + 2*drainQuiet, true, false, 0, 0},
		{"they still come", 90, end, end + 4*time.Second, end + 4*time.Second + drainTick, false, false, 0, 0},
		{"no time is left", 90, end, end + drainLongest, end + drainLongest + drainTick, true, true, 0, 0},
		{"they come far apart", 90, end, end + time.Second, end + time.Second + 2*drainQuiet, false, false, 80 * time.Millisecond, 0},
		{"no more of those", 90, end, end + time.Second, end + time.Second + 4*drainQuiet, true, false, 80 * time.Millisecond, 0},
		{"two came, far apart", 2, end, end - time.Second, end + mostQuiet + drainTick, true, false, time.Minute, 0},
		{"none came yet", 0, end, 0, end + drainFirst, false, false, 0, 0},
		{"none came at all", 0, end, 0, end + drainFirst + drainTick, true, false, 0, 0},
	} {
		r := &receiver{end: end, last: c.last}
		r.count.duplicated = c.copies
		r.count.received, r.lastMeasured = c.received, int64(c.apart)*(c.received-1)
		if got := r.drained(c.at, c.told, sent); got != c.drained || c.becomes != (len(r.facts) > 0) {
			t.Errorf("%s: %v, facts %q", c.name, got, r.facts)
		}
	}
}

// Who waits in vain for the other end's count reads what may be the reason.
func TestUntold(t *testing.T) {
	err := session.Wrap("flow 1 of 1", untold(session.ErrSilent))
	if got := session.ReasonOf(err); got != session.TimedOut || !strings.Contains(err.Error(), "queue") || strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("%v, reason %s", err, got)
	}
}
