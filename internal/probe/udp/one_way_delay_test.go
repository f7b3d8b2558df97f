package udp

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// packetTime is when a packet was sent, by the sender's clock since START, and arrived, by
// the receiver's.
type packetTime struct{ sent, arrived time.Duration }

func receiverOf(start time.Time, stamped bool) *receiver {
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 64, MaxWarmup: 0.01, Duration: 0.5, CopyPayload: true}.Defaults()
	bins, width := session.BinsOf(spec)
	return &receiver{
		cookie: make([]byte, protocol.CookieBytes), width: width, bytes: make([]int64, bins), packets: make([]int64, bins),
		conn: &sockets.Conn{}, start: start, stamped: stamped,
	}
}

// takeAll has the receiver count packets, and says what it reports.
func (r *receiver) takeAll(times []packetTime, sent protocol.Sent) protocol.Received {
	packet := make([]byte, 64)
	var sum arrivals
	for i, p := range times {
		putData(packet, phaseMeasured, uint64(i), int64(p.sent))
		r.packet(&sum, packet, len(packet), int64(p.arrived))
	}
	r.add(sum, time.Millisecond)
	r.flushDelays()
	return r.received(sent, 0)
}

func metricsOf(t *test) measurement.Metrics {
	out := measurement.Outcome{Metrics: measurement.Metrics{}}
	t.fillOneWay(&out)
	return out.Metrics
}

// apart are two machines: by the clock of the client, which is the true time, START is at
// 0, and the server's is ahead of it, by so much then, and gains. Its process was started
// at some moment that its own clock counts from.
type apart struct {
	ahead, drift  float64
	forward, back float64 // what the way takes at least
	queue         float64 // at most, of each packet
}

func (a apart) served(t float64) time.Duration {
	const booted = 1.79e9 // seconds
	return time.Duration((booted+a.ahead)*1e9) + time.Duration(t*(1+a.drift)*1e9)
}

func own(t float64) time.Duration { return time.Duration(t * 1e9) }

// planted is what the client of such a test knows at its end, and the delays as they were.
func (a apart) planted(r *rand.Rand, direction measurement.Direction) (*test, []float64) {
	const seconds, warmup = 2.0, 0.01
	began := a.served(a.forward + a.queue*r.Float64()) // START at the server
	x := func(t float64) clock.Exchange {
		read := t + a.forward + a.queue*r.Float64()
		return clock.Exchange{Sent: own(t), At: a.served(read), Heard: own(read + a.back + a.queue*r.Float64())}
	}
	link := probetest.HonestLink()
	link.Ready.ClockID = "the server's"
	f := &flow{Link: link}
	t := &test{
		req: session.Request{Spec: measurement.Spec{Kind: measurement.UDP, Direction: direction, MaxWarmup: warmup, Duration: seconds}}, flows: []*flow{f},
		start: time.Now(),
	}
	t.req.Target = netip.MustParseAddrPort(link.Ready.Server)
	t.ended = t.start.Add(own(seconds + 0.1))
	for i := range 8 {
		t.exchanges = append(t.exchanges, x(-0.2+0.002*float64(i)))
	}
	t.exchanges = append(t.exchanges, x(1))
	for i := range 8 {
		t.exchanges = append(t.exchanges, x(seconds+0.1+0.002*float64(i)))
	}
	var times []packetTime
	var delays []float64
	for at := warmup; at < seconds; at += 0.005 {
		d := a.queue * r.Float64()
		if direction == measurement.Send {
			d += a.forward
			times = append(times, packetTime{own(at), a.served(at+d) - began})
		} else {
			d += a.back
			times = append(times, packetTime{a.served(at) - began, own(at + d)})
		}
		delays = append(delays, d)
	}
	f.sent = protocol.Sent{MeasuredPackets: int64(len(times))}
	f.received = receiverOf(t.start, false).takeAll(times, f.sent)
	client, server := &protocol.Clock{}, &protocol.Clock{Stamped: int64(began)}
	if direction == measurement.Send {
		f.send = &sender{}
		f.sent.Clock, f.received.Clock = client, server
	} else {
		f.sent.Clock, f.received.Clock = server, client
	}
	slices.Sort(delays)
	return t, delays
}

// Between machines whose clocks are seconds apart and drift, the one-way delay of either
// direction is the truth within the bound that is stated, however unlike the directions.
func TestOneWayDelayBetweenMachines(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 9))
	for i := range 300 {
		a := apart{
			ahead: 20*r.Float64() - 10, drift: (400*r.Float64() - 200) * 1e-6,
			forward: math.Pow(10, -4.3+2.5*r.Float64()), back: math.Pow(10, -4.3+2.5*r.Float64()), queue: math.Pow(10, -6+3*r.Float64()),
		}
		direction := measurement.Send
		if i%2 == 0 {
			direction = measurement.Receive
		}
		test, delays := a.planted(r, direction)
		m := metricsOf(test)
		bound := m["one_way_delay_bound_seconds"]
		for name, truth := range map[string]float64{
			"one_way_delay_min_seconds": delays[0],
			"one_way_delay_p50_seconds": delays[(len(delays)-1)/2],
			"one_way_delay_p99_seconds": delays[(len(delays)*99-1)/100],
		} {
			// Percentiles are exact within 1 % of their distance from the first packet's delay.
			exact := 0.01 * (a.queue + 4e-4*2)
			if got, ok := m[name]; !ok || math.Abs(got-truth) > bound+exact {
				t.Errorf("%+v, %s: %s is %v s ± %v s, in truth %v; %q", a, direction, name, got, bound, truth, test.facts)
			}
		}
		// The way there and back, and what they queue and drift: nothing else is open.
		if most := (a.forward+a.back+2*a.queue)/2 + math.Abs(a.drift)*1.2 + 40e-6; bound > most {
			t.Errorf("%+v: ± %v s, want at most %v", a, bound, most)
		}
	}
}

// What other bounds of the clocks say makes the one-way delay as much better known.
func TestOneWayDelayByBetterClocks(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 10))
	a := apart{ahead: 7, drift: 20e-6, forward: 0.001, back: 0.005}
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		test, delays := a.planted(r, direction)
		out := measurement.Outcome{Metrics: measurement.Metrics{}}
		test.fillOneWay(&out)
		one := out.OneWay
		if one == nil {
			t.Fatal(test.facts)
		}
		if one.Narrow(one.AheadMost+1, one.AheadMost+2) || one.Narrow(one.AheadLeast-1, one.AheadMost+1) {
			t.Error("bounds that contradict, or say nothing, were taken")
		}
		// In truth, since START of either end.
		truth := measurement.SecondsOf(a.served(0) - time.Duration(one.DestinationStarted))
		if !one.Narrow(truth-100e-6, truth+100e-6) || !one.Fill(out.Metrics) {
			t.Fatalf("%+v does not take better bounds about %v", one, truth)
		}
		got, bound := out.Metrics["one_way_delay_p50_seconds"], out.Metrics["one_way_delay_bound_seconds"]
		if math.Abs(got-delays[0]) > bound || bound > 150e-6 {
			t.Errorf("%s: %v s ± %v s, in truth %v", direction, got, bound, delays[0])
		}
	}
}

// Where the clocks are not known there is no one-way delay, and it is said why.
func TestNoOneWayDelayBetweenMachines(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 11))
	for name, c := range map[string]struct {
		change func(*test)
		fact   string
	}{
		"an earlier version":    {func(t *test) { t.flows[0].Ready.ClockID = "" }, "answers no stamps"},
		"nothing is answered":   {func(t *test) { t.exchanges = nil }, "none of the stamps"},
		"a clock that jumped":   {func(t *test) { t.exchanges[10].At += time.Second }, "jumped"},
		"a server without time": {func(t *test) { t.flows[0].received.Clock = nil }, "when it began"},
		"two servers": {func(t *test) {
			other := *t.flows[0]
			link := *other.Link
			link.Ready.Cookie = []byte("another")
			other.Link = &link
			t.flows = append(t.flows, &other)
		}, "not all flows"},
		"before they were sent": {func(t *test) { t.flows[0].received.Clock.Stamped -= int64(time.Second) }, "before they were sent"},
	} {
		test, _ := apart{forward: 0.001, back: 0.001}.planted(r, measurement.Send)
		c.change(test)
		if m := metricsOf(test); len(m) != 0 || !strings.Contains(strings.Join(test.facts, "; "), c.fact) {
			t.Errorf("%s: %v, facts %q", name, m, test.facts)
		}
	}
}
