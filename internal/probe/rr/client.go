package rr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// answerTick is how often who waits for a response over UDP looks whether its
// timeout has passed.
const answerTick = 10 * time.Millisecond

// defaultTimeout of a UDP request that the spec does not bound.
const defaultTimeout = 500 * time.Millisecond

func timeoutOf(spec measurement.Spec) time.Duration {
	return cmp.Or(spec.Timeout.Duration(), defaultTimeout)
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	req.Placed = req.Spec.Placed()
	l, err := session.ConnectSingle(ctx, req)
	if err != nil {
		return measurement.Outcome{}, err
	}
	control := session.ControlConn{Conn: l.Conn, Deadline: time.Now().Add(session.HandshakeTimeout)}
	defer func() { _ = control.Abort() }() // whatever it says, the test is over
	stop := context.AfterFunc(ctx, control.Interrupt)
	defer stop()

	t := &test{req: req, link: l, control: control}
	if t.ends, err = session.PlacedBy(req.Spec, l.Ready); err != nil {
		return measurement.Outcome{}, session.Wrap("read where the ends run", err)
	}
	ttl := datagram.StartTTLProbe(ctx, req, l.Ready)
	defer ttl.End()
	localTTL := ttl.Result() // before the loop, which nothing should disturb
	t.loop.warmup, t.loop.length = req.Spec.MaxWarmup.Duration(), req.Spec.Duration.Duration()
	t.loop.recorder = latency.New()
	if req.Hooks != nil {
		t.hooks = *req.Hooks
	}
	if t.hooks.Enough != nil {
		defer context.AfterFunc(t.hooks.Enough, func() { t.loop.stop.Store(true) })()
	}
	if t.begun, err = req.AwaitCommonStart(ctx); err != nil {
		return measurement.Outcome{}, err
	}
	defer t.begun()
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

// test is an rr test at the client.
type test struct {
	req     session.Request
	hooks   session.Hooks
	link    *session.Link
	control session.ControlConn
	ends    session.Placement
	loop    loop
	several *pipeline // nil in a closed loop with one request in flight
	begun   func()    // see session.Request.AwaitCommonStart
	start   time.Time
	spin    bool              // was done, not only asked for
	inForce map[string]string // of the options of this end's socket
	facts   []string
	host    *protocol.HostSeries
	report  protocol.Report
	request int // bytes, as sent
	respond int // bytes, as received
}

// pipelined says whether several requests may be in flight.
func pipelined(spec measurement.Spec) bool { return spec.InFlight > 1 || spec.RequestsPerSecond > 0 }

func (t *test) overTCP(progress func(measurement.Progress)) error {
	spec := t.req.Spec
	if err := t.control.NoDelay(); err != nil {
		return session.Wrap("prepare the socket", err)
	}
	t.request, t.respond = spec.RequestBytes, spec.ResponseBytes
	t.inForce = session.InForce(t.control.Conn, spec, true)
	t.control.Deadline = time.Now().Add(session.Planned(spec) + Grace(spec))
	x := &tcpExchange{endpoint: endpoint{ControlConn: t.control}, request: make([]byte, t.request), response: make([]byte, t.respond)}
	if pipelined(spec) {
		c := &tcpCarrier{Conn: t.control.Conn, request: make([]byte, t.request), response: t.respond, in: make([]byte, max(t.respond, carrierBytes))}
		t.several = newPipeline(c, &t.loop, spec.RequestsPerSecond, spec.InFlight, 0)
	}
	t.loop.exchanger = x
	if err := t.measure(progress, &x.endpoint); err != nil || t.several != nil && t.several.silent {
		return err // a silent server reports nothing
	}
	t.control.Deadline = time.Now().Add(session.Grace)
	return t.control.ReadReport(&t.report)
}

// carrierBytes is how much of the responses that wait one call reads.
const carrierBytes = 64 << 10

func (t *test) overUDP(ctx context.Context, progress func(measurement.Progress)) error {
	spec := t.req.Spec
	timeout := timeoutOf(spec)
	conn, err := datagram.Dial(ctx, t.req, t.link.Ready, netip.AddrPortFrom(t.req.Source, uint16(spec.SourcePort)))
	if err != nil {
		return session.Wrap("open a UDP socket", err)
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := datagram.SetOptions(conn, spec); err != nil {
		return err
	}
	t.inForce = session.InForce(conn, spec, true)
	if err := conn.SetReadTick(min(timeout, answerTick)); err != nil {
		return session.Wrap("prepare the socket", err)
	}
	stop := context.AfterFunc(ctx, conn.Interrupt)
	defer stop()
	t.request, t.respond = max(spec.RequestBytes, datagram.HeaderBytes), max(spec.ResponseBytes, datagram.HeaderBytes)
	x := &udpExchange{endpoint: endpoint{ControlConn: session.ControlConn{Conn: conn}}, request: make([]byte, t.request), response: make([]byte, datagram.MaxBytes), timeout: timeout, late: &t.loop.late}
	datagram.PutHeader(x.request, t.link.Ready.Cookie, datagram.Request)
	if pipelined(spec) {
		u := &udpCarrier{Conn: conn, request: x.request, in: x.response}
		t.several = newPipeline(u, &t.loop, spec.RequestsPerSecond, spec.InFlight, timeout)
	}
	t.loop.exchanger = x
	if err := t.measure(progress, &x.endpoint); err != nil {
		return err
	}
	if err := t.stillAnswered(conn, x.request); err != nil {
		return err
	}
	t.control.Deadline = time.Now().Add(session.Grace)
	return t.control.EndTest(&t.report)
}

// moreTries is how many further requests a path has to lose for it to be called dead, and
// triesApart how far apart they leave: it may stand still for a moment.
const (
	moreTries  = 10
	triesApart = 250 * time.Millisecond
)

// stillAnswered is an error where nothing was answered at the end of a closed loop, and none of
// some further requests is. Each lost request took the time of many there, so that the loss of a
// path that died is small. Over TCP silence ends the test.
func (t *test) stillAnswered(conn *sockets.Conn, request []byte) error {
	l := &t.loop
	silent := l.silence()
	if t.req.Spec.RequestsPerSecond > 0 || silent == 0 || l.recorder.Samples() == 0 {
		return nil
	}
	in := make([]byte, datagram.MaxBytes)
	for try := range moreTries {
		_, _ = conn.Write(request) // one that does not leave is one that is lost
		end := time.Now().Add(triesApart)
		if try == moreTries-1 {
			end = time.Now().Add(timeoutOf(t.req.Spec))
		}
		for time.Now().Before(end) {
			if n, err := conn.Read(in); err == nil && n >= datagram.HeaderBytes || errors.Is(err, io.EOF) {
				return nil // also where it was interrupted, which the next step says
			}
		}
	}
	return &session.Error{Op: "rr test", Reason: session.TimedOut, Err: fmt.Errorf(
		"no request was answered in the last %.2g s of %.2g s, nor %d more, though %d were before", silent.Seconds(), (l.warmup + l.measured).Seconds(), moreTries, l.recorder.Samples())}
}

// measure sends START and runs the loop, which transfers as e says, on a
// thread of its own.
func (t *test) measure(progress func(measurement.Progress), e *endpoint) error {
	spec := t.req.Spec
	if t.several != nil && t.hooks.Capacity > 0 {
		t.several.samples = make([]session.Sample, 0, t.hooks.Capacity)
	}
	start := time.Now()
	t.start = start
	t.control.Deadline = start.Add(session.Planned(spec) + Grace(spec))
	if err := protocol.WriteFrame(&t.control, protocol.TypeStart, nil); err != nil {
		return session.Wrap("start", err)
	}
	t.begun()
	if t.hooks.Started != nil {
		t.hooks.Started(start)
	}
	host := host.StartSampler(start)
	newest := func() time.Duration { return time.Duration(t.loop.lastRTT.Swap(0)) }
	signs := sampling.Start(session.ProgressInterval, session.RTTProgress(start, newest, progress))
	fact, err := session.OnThread(spec.Spin, "source", t.ends.Source, func(spin bool) error {
		t.spin, e.spin = spin, spin
		if t.several == nil {
			return t.loop.run(start)
		}
		t.several.spin = spin
		if !spin {
			defer thread.PreciseTimers()()
		}
		if err := t.several.run(start); err != nil || t.several.silent {
			return err
		}
		return t.loop.exchange(true)
	})
	signs.End()
	t.host = host.Result()
	if fact != "" {
		t.facts = append(t.facts, fact)
	}
	if t.several != nil {
		t.facts = append(t.facts, t.several.facts()...)
		if t.hooks.Samples != nil {
			t.hooks.Samples(start, t.several.samples)
		}
	}
	return session.Wrap("exchange requests and responses", err)
}

// tooShort says of responses that came after their timeout that it is too short.
func (t *test) tooShort() string {
	return fmt.Sprintf("the timeout of %v, after which %d answers came; the round trip takes longer: give a longer timeout", timeoutOf(t.req.Spec), t.loop.tardy)
}

// unanswered is why there is no round trip.
func (t *test) unanswered() error {
	l, udp := &t.loop, t.req.Spec.Protocol == measurement.OverUDP
	e := &session.Error{Op: "rr test", Reason: session.Failed}
	switch {
	// Requests over UDP that were sent would have been answered, however many were not.
	case t.several != nil && t.several.unsent > 0 && (l.lost == 0 || !udp):
		e.Err = errors.New(strings.Join(t.several.facts(), "; "))
	case l.lost == 0:
		e.Err = fmt.Errorf("no request left in the measured %v s, for which this host was too busy; measure longer", float64(t.req.Spec.Duration))
	case l.tardy > 0:
		e.Err = fmt.Errorf("none of %d requests was answered within %s", l.lost, t.tooShort())
	default:
		e.Reason, e.Err = session.TimedOut, fmt.Errorf("none of %d requests was answered", l.lost)
		if udp {
			e.Err = fmt.Errorf("%w: a firewall may drop UDP to %s; the same over TCP (protocol tcp) needs no more than the port that is open", e.Err, t.req.Target)
		}
	}
	return e
}

func (t *test) outcome(localTTL int) (measurement.Outcome, error) {
	spec, l := t.req.Spec, &t.loop
	n := l.recorder.Samples()
	if n == 0 {
		return measurement.Outcome{}, t.unanswered()
	}
	distribution := l.recorder.Distribution()
	out := measurement.Outcome{
		Started: t.start,
		Metrics: measurement.Metrics{}, Warmup: spec.MaxWarmup, Latency: &distribution,
		Effective: map[string]string{
			"request_bytes": fmt.Sprint(t.request), "response_bytes": fmt.Sprint(t.respond),
			"source_wait": session.WaitMethod(t.spin), "placement": t.ends.Name,
		},
	}
	l.recorder.FillMetrics(out.Metrics, measurement.RR)
	out.Metrics["loss_fraction"] = float64(l.lost) / float64(l.lost+n)
	out.Metrics["transactions_per_second"] = float64(n) / l.measured.Seconds()
	t.addWakeup(&out)
	for k := range out.Effective {
		delete(t.report.Effective, k) // what this end did, it knows itself
	}
	session.AddEffective(&out, t.inForce, t.report.Effective)
	if t.request != spec.RequestBytes || t.respond != spec.ResponseBytes {
		out.Facts = append(out.Facts, fmt.Sprintf("UDP messages are at least %d bytes long: they carry the test's cookie", datagram.HeaderBytes))
	}
	if l.lost > 0 && l.tardy > 0 {
		out.Facts = append(out.Facts, fmt.Sprintf("%d of %d requests count as lost that were not answered within %s", l.lost, l.lost+n, t.tooShort()))
	}
	out.Facts = slices.Concat(out.Facts, t.ends.Facts(spec), t.facts, t.report.Facts)
	out.Facts = append(out.Facts, datagram.Destinations(t.link.Remote, []string{t.link.Ready.Server})...)
	from := float64(spec.MaxWarmup)
	to := from + l.measured.Seconds()
	out.Source = host.EndOf(t.host, from, to, localTTL)
	out.Destination = host.EndOf(t.report.Host, from, to, t.link.Ready.ReceivedTTL)
	host.AddCost(&out, l.measured.Seconds(), 0, 0)
	delete(out.Metrics, "dropped_packets_count") // the Catalogue has it for bulk tests
	return out, nil
}

// addWakeup fills in how the round trip divides, where the kernel's time stamps
// told it of round trips enough for a median.
func (t *test) addWakeup(out *measurement.Outcome) {
	l := &t.loop
	for name, r := range map[string]*latency.Recorder{"path_rtt_p50_seconds": l.path, "wakeup_p50_seconds": l.wakeup} {
		if r == nil {
			continue
		}
		if v, ok := r.Distribution().At(50); ok {
			out.Metrics[name] = float64(v)
		}
	}
	if _, ok := out.Metrics["wakeup_p50_seconds"]; !ok && l.wakeup != nil {
		out.Facts = append(out.Facts, fmt.Sprintf("the wake-up is not told from the path: only %d round trips were divided; %d had no time stamp of the kernel, %d an impossible one",
			l.wakeup.Samples(), l.unstamped, l.impossible))
	}
}
