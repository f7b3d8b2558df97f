package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// defaultTimeout of a UDP request that the spec does not bound.
const defaultTimeout = 500 * time.Millisecond

// answerTick is how often who waits for a response over UDP looks whether its
// timeout has passed.
const answerTick = 10 * time.Millisecond

func runRR(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	session, err := newSession()
	if err != nil {
		return measurement.Outcome{}, err
	}
	req.placed = req.Spec.Placed()
	l, err := connect(ctx, req, session, 0)
	if err != nil {
		return measurement.Outcome{}, err
	}
	control := wire{Conn: l.conn, deadline: time.Now().Add(handshakeTimeout)}
	defer func() { _ = control.Abort() }() // whatever it says, the test is over
	stop := context.AfterFunc(ctx, control.Interrupt)
	defer stop()

	t := &rrTest{req: req, link: l, control: control}
	if t.ends, err = placedBy(req.Spec, l.ready); err != nil {
		return measurement.Outcome{}, failure("read where the ends run", err)
	}
	ttl := startTTLProbe(ctx, req, l.ready)
	defer ttl.end()
	localTTL := ttl.result() // before the loop, which nothing should disturb
	t.loop.warmup, t.loop.length = req.Spec.MaxWarmup.Duration(), req.Spec.Duration.Duration()
	t.loop.recorder = latency.New()
	if req.hooks != nil {
		t.hooks = *req.hooks
	}
	if t.hooks.enough != nil {
		defer context.AfterFunc(t.hooks.enough, func() { t.loop.stop.Store(true) })()
	}
	if req.Spec.Protocol == measurement.OverUDP {
		err = t.overUDP(ctx, progress)
	} else {
		err = t.overTCP(progress)
	}
	if err != nil {
		return measurement.Outcome{}, err
	}
	return t.outcome(localTTL)
}

// rrTest is an rr test at the client.
type rrTest struct {
	req     Request
	hooks   hooks
	link    *link
	control wire
	ends    placement
	loop    rrLoop
	several *pipeline // nil in a closed loop with one request in flight
	start   time.Time
	spin    bool // was done, not only asked for
	facts   []string
	host    *protocol.HostSeries
	report  protocol.Report
	request int // bytes, as sent
	respond int // bytes, as received
}

// pipelined says whether several requests may be in flight.
func pipelined(spec measurement.Spec) bool { return spec.InFlight > 1 || spec.RequestsPerSecond > 0 }

func (t *rrTest) overTCP(progress func(measurement.Progress)) error {
	spec := t.req.Spec
	if err := t.control.NoDelay(); err != nil {
		return failure("prepare the socket", err)
	}
	t.request, t.respond = spec.RequestBytes, spec.ResponseBytes
	t.control.deadline = time.Now().Add(planned(spec) + grace)
	x := &tcpExchange{endpoint: endpoint{wire: t.control}, request: make([]byte, t.request), response: make([]byte, t.respond)}
	if pipelined(spec) {
		c := &tcpCarrier{Conn: t.control.Conn, request: make([]byte, t.request), response: t.respond, in: make([]byte, max(t.respond, carrierBytes))}
		t.several = newPipeline(c, &t.loop, spec.RequestsPerSecond, spec.InFlight, 0)
	}
	err := t.measure(progress, &x.endpoint, func(start time.Time) error {
		t.loop.exchanger = x
		if t.several == nil {
			return t.loop.run(start)
		}
		if err := t.several.run(start); err != nil {
			return err
		}
		return x.exchange(true)
	})
	if err != nil {
		return err
	}
	t.control.deadline = time.Now().Add(grace)
	return failure("read the server's report", protocol.Expect(&t.control, protocol.TypeReport, protocol.MaxControl, &t.report))
}

// marked marks what a UDP socket sends as the spec asks; TCP connections are
// marked before their handshake.
func marked(conn *sockets.Conn, spec measurement.Spec) error {
	if spec.DSCP == 0 {
		return nil
	}
	if err := conn.SetDSCP(spec.DSCP); err != nil {
		return &Error{Op: "prepare the socket", Reason: Unsupported, Err: err}
	}
	return nil
}

// carrierBytes is how much of the responses that wait one call reads.
const carrierBytes = 64 << 10

func (t *rrTest) overUDP(ctx context.Context, progress func(measurement.Progress)) error {
	spec := t.req.Spec
	timeout := cmp.Or(spec.Timeout.Duration(), defaultTimeout)
	conn, err := dialServer(ctx, t.req, t.link.ready, netip.AddrPortFrom(t.req.Source, uint16(spec.SourcePort)))
	if err != nil {
		return failure("open a UDP socket", err)
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := marked(conn, spec); err != nil {
		return err
	}
	if err := conn.SetReadTick(min(timeout, answerTick)); err != nil {
		return failure("prepare the socket", err)
	}
	stop := context.AfterFunc(ctx, conn.Interrupt)
	defer stop()
	t.request, t.respond = max(spec.RequestBytes, datagramBytes), max(spec.ResponseBytes, datagramBytes)
	x := &udpExchange{endpoint: endpoint{wire: wire{Conn: conn}}, request: make([]byte, t.request), response: make([]byte, maxDatagram), timeout: timeout}
	putDatagram(x.request, t.link.ready.Cookie, datagramRequest)
	if pipelined(spec) {
		u := &udpCarrier{Conn: conn, request: x.request, in: x.response}
		t.several = newPipeline(u, &t.loop, spec.RequestsPerSecond, spec.InFlight, timeout)
	}
	err = t.measure(progress, &x.endpoint, func(start time.Time) error {
		t.loop.exchanger = x
		if t.several == nil {
			return t.loop.run(start)
		}
		return t.several.run(start)
	})
	if err != nil {
		return err
	}
	t.control.deadline = time.Now().Add(grace)
	if err := protocol.WriteFrame(&t.control, protocol.TypeReceived, nil); err != nil {
		return failure("end the test", err)
	}
	return failure("read the server's report", protocol.Expect(&t.control, protocol.TypeReport, protocol.MaxControl, &t.report))
}

// measure sends START and runs loop, which transfers as e says, on a thread of its
// own.
func (t *rrTest) measure(progress func(measurement.Progress), e *endpoint, loop func(start time.Time) error) error {
	spec := t.req.Spec
	if t.several != nil && t.hooks.capacity > 0 {
		t.several.samples = make([]sample, 0, t.hooks.capacity)
	}
	start := time.Now()
	t.start = start
	t.control.deadline = start.Add(planned(spec) + grace)
	if err := protocol.WriteFrame(&t.control, protocol.TypeStart, nil); err != nil {
		return failure("start", err)
	}
	if t.hooks.started != nil {
		t.hooks.started(start)
	}
	host := startHostSampler(start)
	signs := startSampler(progressInterval, func() {
		progress(measurement.Progress{
			Elapsed: measurement.SecondsOf(time.Since(start)),
			RTT:     measurement.SecondsOf(time.Duration(t.loop.lastRTT.Load())),
		})
	})
	fact, err := onThread(spec.Spin, "source", t.ends.source, func(spin bool) error {
		t.spin, e.spin = spin, spin
		if t.several != nil {
			t.several.spin = spin
			if !spin {
				defer sockets.PreciseTimers()()
			}
		}
		return loop(start)
	})
	signs.end()
	t.host = host.result()
	if fact != "" {
		t.facts = append(t.facts, fact)
	}
	if t.several != nil {
		t.facts = append(t.facts, t.several.facts()...)
		if t.hooks.samples != nil {
			t.hooks.samples(start, t.several.samples)
		}
	}
	return failure("exchange requests and responses", err)
}

func (t *rrTest) outcome(localTTL int) (measurement.Outcome, error) {
	spec, l := t.req.Spec, &t.loop
	n := l.recorder.Samples()
	if n == 0 && t.several != nil && t.several.unsent > 0 {
		return measurement.Outcome{}, &Error{Op: "rr test", Reason: Failed, Err: errors.New(strings.Join(t.several.facts(), "; "))}
	}
	if n == 0 {
		err := fmt.Errorf("none of %d requests was answered", l.lost)
		if spec.Protocol == measurement.OverUDP {
			err = fmt.Errorf("%w: a firewall may drop UDP to %s; the same over TCP (protocol tcp) needs no more than the port that is open", err, t.req.Target)
		}
		return measurement.Outcome{}, &Error{Op: "rr test", Reason: TimedOut, Err: err}
	}
	distribution := l.recorder.Distribution()
	out := measurement.Outcome{
		Started: t.start,
		Metrics: measurement.Metrics{}, Warmup: spec.MaxWarmup, Latency: &distribution,
		Effective: map[string]string{
			"request_bytes": fmt.Sprint(t.request), "response_bytes": fmt.Sprint(t.respond),
			"source_wait": waiting(t.spin), "placement": t.ends.name,
		},
	}
	l.recorder.FillMetrics(out.Metrics, measurement.RR)
	out.Metrics["loss_fraction"] = float64(l.lost) / float64(l.lost+n)
	out.Metrics["transactions_per_second"] = float64(n) / l.measured.Seconds()
	t.addWakeup(&out)
	for k, v := range t.report.Effective {
		if _, known := out.Effective[k]; !known { // what this end did, it knows itself
			out.Effective[k] = v
		}
	}
	if t.request != spec.RequestBytes || t.respond != spec.ResponseBytes {
		out.Facts = append(out.Facts, fmt.Sprintf("UDP messages are at least %d bytes long: they carry the test's cookie", datagramBytes))
	}
	out.Facts = slices.Concat(out.Facts, t.ends.facts(spec), t.facts, t.report.Facts)
	out.Facts = append(out.Facts, destinations(t.link.remote, []string{t.link.ready.Server})...)
	from := float64(spec.MaxWarmup)
	to := from + l.measured.Seconds()
	out.Source = endOf(t.host, from, to, localTTL)
	out.Destination = endOf(t.report.Host, from, to, t.link.ready.ReceivedTTL)
	addCost(&out, l.measured.Seconds(), 0, 0)
	delete(out.Metrics, "dropped_packets_count") // the Catalogue has it for bulk tests
	return out, nil
}

// addWakeup fills in how the round trip divides, where the kernel's time stamps
// told it of round trips enough for a median.
func (t *rrTest) addWakeup(out *measurement.Outcome) {
	l := &t.loop
	for name, r := range map[string]*latency.Recorder{"path_rtt_p50_seconds": l.path, "wakeup_p50_seconds": l.wakeup} {
		if r == nil {
			continue
		}
		if v, ok := percentile(r.Distribution(), 50); ok {
			out.Metrics[name] = v
		}
	}
	if _, ok := out.Metrics["wakeup_p50_seconds"]; !ok && l.wakeup != nil {
		out.Facts = append(out.Facts, fmt.Sprintf("the wake-up is not told from the path: only %d round trips were divided; %d had no time stamp of the kernel, %d an impossible one",
			l.wakeup.Samples(), l.unstamped, l.impossible))
	}
}

// percentile is a point of a distribution's curve in seconds, where it has it.
func percentile(d measurement.Distribution, percent float64) (float64, bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return float64(p.Value), true
		}
	}
	return 0, false
}

// dialUDP opens a UDP socket to the server that sent ready, with which Go's
// runtime waits.
func dialUDP(ctx context.Context, req Request, ready protocol.Ready) (*net.UDPConn, error) {
	var local *net.UDPAddr
	if req.Source.IsValid() {
		local = &net.UDPAddr{IP: req.Source.AsSlice(), Zone: req.Source.Zone()}
	}
	if translated(req.Target, ready) {
		found, err := dialServer(ctx, req, ready, netip.AddrPortFrom(req.Source, 0))
		if err != nil {
			return nil, err
		}
		address, err := netip.ParseAddrPort(found.LocalAddr())
		if err := errors.Join(err, found.Close()); err != nil {
			return nil, err
		}
		local = net.UDPAddrFromAddrPort(address)
	}
	return net.DialUDP("udp", local, net.UDPAddrFromAddrPort(req.Target))
}
