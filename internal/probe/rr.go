package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// The first byte of a request over TCP says whether another follows; after the
// answer to the last one, frames go on.
const (
	moreRequests = 0
	lastRequest  = 1
)

// defaultTimeout of a UDP request that the spec does not bound.
const defaultTimeout = 500 * time.Millisecond

// exchanger does one request and its response. It returns errLost when the
// response did not come in time and the test may go on.
type exchanger interface {
	exchange(last bool) error
}

var errLost = errors.New("no response in time")

// tcpExchange is the closed loop's step over TCP.
type tcpExchange struct {
	wire
	request, response []byte
}

func (x *tcpExchange) exchange(last bool) error {
	if last {
		x.request[0] = lastRequest
	}
	if _, err := x.Write(x.request); err != nil {
		return err
	}
	for done := 0; done < len(x.response); {
		n, err := x.wire.Read(x.response[done:])
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// udpExchange is the closed loop's step over UDP.
type udpExchange struct {
	*sockets.Conn
	request, response []byte
	sequence          uint32
	timeout           time.Duration
}

func (x *udpExchange) exchange(bool) error {
	x.sequence++
	binary.BigEndian.PutUint32(x.request[datagramSequence:], x.sequence)
	if _, err := x.Write(x.request); err != nil && !errors.Is(err, sockets.ErrTick) {
		return err
	}
	began := time.Now()
	for {
		n, err := x.Conn.Read(x.response)
		switch {
		case errors.Is(err, sockets.ErrTick):
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case n >= datagramBytes && binary.BigEndian.Uint32(x.response[datagramSequence:]) == x.sequence:
			return nil
		}
		// A tick, or a late or foreign packet: wait for ours, but not for ever.
		if time.Since(began) > x.timeout {
			return errLost
		}
	}
}

// rrLoop is the closed loop itself: one request in flight, for a fixed time
// that is discarded and a fixed time that counts. Everything it needs exists
// before it runs; it neither allocates nor logs.
type rrLoop struct {
	exchanger
	// keep asks for the processor while the loop runs; may be nil.
	keep           func() (func(), error)
	recorder       *latency.Recorder
	warmup, length time.Duration
	// lastRTT and elapsed are for progress, count and lost for the metrics.
	lastRTT, elapsed atomic.Int64
	lost             int64
	measured         time.Duration
}

func (l *rrLoop) run(start time.Time) error {
	counting := l.warmup == 0
	began := time.Since(start)
	for {
		sent := time.Since(start)
		last := sent >= l.warmup+l.length
		err := l.exchange(last)
		back := time.Since(start)
		if err != nil && err != errLost { //nolint:errorlint // the very value, in a hot loop
			return err
		}
		if last {
			l.measured = sent - began
			return nil
		}
		switch {
		case !counting:
			if back >= l.warmup {
				counting, began = true, back
			}
		case err != nil:
			l.lost++
		default:
			l.recorder.Record(back - sent)
			l.lastRTT.Store(int64(back - sent))
		}
		l.elapsed.Store(int64(back))
	}
}

func runRR(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	session, err := newSession()
	if err != nil {
		return measurement.Outcome{}, err
	}
	l, err := connect(ctx, req, session, 0)
	if err != nil {
		return measurement.Outcome{}, err
	}
	control := wire{Conn: l.conn, deadline: time.Now().Add(handshakeTimeout)}
	defer func() { _ = control.Abort() }() // whatever it says, the test is over
	stop := context.AfterFunc(ctx, control.Interrupt)
	defer stop()

	ttl := startTTLProbe(ctx, req, l.ready)
	defer ttl.end()
	localTTL := ttl.result() // before the loop, which nothing should disturb
	t := &rrTest{req: req, link: l, control: control}
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
	link    *link
	control wire
	loop    rrLoop
	host    *protocol.HostSeries
	report  protocol.Report
	request int // bytes, as sent
	respond int // bytes, as received
}

func (t *rrTest) overTCP(progress func(measurement.Progress)) error {
	spec := t.req.Spec
	if err := t.control.NoDelay(); err != nil {
		return failure("prepare the socket", err)
	}
	t.request, t.respond = spec.RequestBytes, spec.ResponseBytes
	x := &tcpExchange{wire: t.control, request: make([]byte, t.request), response: make([]byte, t.respond)}
	x.deadline = time.Now().Add(planned(spec) + grace)
	t.loop.exchanger, t.loop.keep = x, t.control.KeepProcessor
	if err := t.measure(progress); err != nil {
		return err
	}
	return failure("read the server's report", protocol.Expect(&t.control, protocol.TypeReport, protocol.MaxControl, &t.report))
}

func (t *rrTest) overUDP(ctx context.Context, progress func(measurement.Progress)) error {
	spec := t.req.Spec
	c, err := dialUDP(t.req)
	if err != nil {
		return failure("open a UDP socket", err)
	}
	timeout := spec.Timeout.Duration()
	if timeout == 0 {
		timeout = defaultTimeout
	}
	conn, err := sockets.DetachUDP(c)
	if err != nil {
		return failure("open a UDP socket", errors.Join(err, ignoreClosed(c.Close())))
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	stop := context.AfterFunc(ctx, conn.Interrupt)
	defer stop()
	t.request, t.respond = max(spec.RequestBytes, datagramBytes), max(spec.ResponseBytes, datagramBytes)
	x := &udpExchange{Conn: conn, request: make([]byte, t.request), response: make([]byte, maxDatagram), timeout: timeout}
	putDatagram(x.request, t.link.ready.Cookie, datagramRequest)
	t.loop.exchanger, t.loop.keep = x, conn.KeepProcessor
	if err := t.measure(progress); err != nil {
		return err
	}
	t.control.deadline = time.Now().Add(grace)
	if err := protocol.WriteFrame(&t.control, protocol.TypeReceived, nil); err != nil {
		return failure("end the test", err)
	}
	return failure("read the server's report", protocol.Expect(&t.control, protocol.TypeReport, protocol.MaxControl, &t.report))
}

// measure sends START and runs the loop on a thread of its own.
func (t *rrTest) measure(progress func(measurement.Progress)) error {
	spec := t.req.Spec
	l := &t.loop
	l.recorder = latency.New()
	l.warmup, l.length = spec.MaxWarmup.Duration(), spec.Duration.Duration()
	start := time.Now()
	t.control.deadline = start.Add(planned(spec) + grace)
	if err := protocol.WriteFrame(&t.control, protocol.TypeStart, nil); err != nil {
		return failure("start", err)
	}
	host := startHostSampler(start)
	signs := startSampler(progressInterval, func() {
		progress(measurement.Progress{
			Elapsed: measurement.SecondsOf(time.Since(start)),
			RTT:     measurement.SecondsOf(time.Duration(l.lastRTT.Load())),
		})
	})
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer sockets.Lock()()
		if l.keep != nil {
			release, keep := l.keep()
			if keep != nil {
				err = keep
				return
			}
			defer release()
		}
		err = l.run(start)
	}()
	<-done
	signs.end()
	t.host = host.result()
	return failure("exchange requests and responses", err)
}

func (t *rrTest) outcome(localTTL int) (measurement.Outcome, error) {
	spec, l := t.req.Spec, &t.loop
	n := l.recorder.Samples()
	if n == 0 {
		err := fmt.Errorf("none of %d requests was answered", l.lost)
		if spec.Protocol == measurement.OverUDP {
			err = fmt.Errorf("%w: a firewall may drop UDP to %s", err, t.req.Target)
		}
		return measurement.Outcome{}, &Error{Op: "rr test", Reason: TimedOut, Err: err}
	}
	distribution := l.recorder.Distribution()
	out := measurement.Outcome{
		Metrics: measurement.Metrics{}, Warmup: spec.MaxWarmup, Latency: &distribution,
		Effective: map[string]string{
			"request_bytes": fmt.Sprint(t.request), "response_bytes": fmt.Sprint(t.respond),
		},
	}
	l.recorder.FillMetrics(out.Metrics, measurement.RR)
	out.Metrics["loss_fraction"] = float64(l.lost) / float64(l.lost+n)
	out.Metrics["transactions_per_second"] = float64(n) / l.measured.Seconds()
	for k, v := range t.report.Effective {
		out.Effective[k] = v
	}
	if t.request != spec.RequestBytes || t.respond != spec.ResponseBytes {
		out.Facts = append(out.Facts, fmt.Sprintf("UDP messages are at least %d bytes long: they carry the test's cookie", datagramBytes))
	}
	out.Facts = append(out.Facts, t.report.Facts...)
	from := float64(spec.MaxWarmup)
	to := from + l.measured.Seconds()
	out.Source = endOf(t.host, from, to, localTTL)
	out.Destination = endOf(t.report.Host, from, to, t.link.ready.ReceivedTTL)
	return out, nil
}

// serveRR is the server's end of an rr test.
func serveRR(w wire, open protocol.Open, ready protocol.Ready) error {
	spec := open.Spec
	if err := w.NoDelay(); err != nil {
		return err
	}
	request, response := make([]byte, spec.RequestBytes), make([]byte, spec.ResponseBytes)
	start, err := awaitStart(&w, ready)
	if err != nil {
		return err
	}
	w.deadline = start.Add(planned(spec) + grace)
	host := startHostSampler(start)
	defer host.end()
	var answered int64
	if spec.Protocol == measurement.OverUDP {
		// The packets meet serveUDP; this connection only waits for the end.
		err = protocol.Expect(&w, protocol.TypeReceived, protocol.MaxControl, nil)
	} else {
		answered, err = answer(&w, request, response)
	}
	if err != nil {
		return err
	}
	report := protocol.Report{Answered: answered, Host: host.result()}
	if err := protocol.WriteFrame(&w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// answer responds to every request up to the last one, and says to how many.
func answer(w *wire, request, response []byte) (int64, error) {
	release, err := w.KeepProcessor()
	if err != nil {
		return 0, err
	}
	defer release()
	var n int64
	for {
		for done := 0; done < len(request); {
			got, err := w.Read(request[done:])
			if err != nil {
				return n, err
			}
			done += got
		}
		if _, err := w.Write(response); err != nil {
			return n, err
		}
		n++
		if request[0] != moreRequests {
			return n, nil
		}
		// A client that never ends is bounded too; the clock is read rarely.
		if n%1024 == 0 && w.late() {
			return n, os.ErrDeadlineExceeded
		}
	}
}

// dialUDP opens a UDP socket to the server.
func dialUDP(req Request) (*net.UDPConn, error) {
	var local *net.UDPAddr
	if req.Source.IsValid() {
		local = &net.UDPAddr{IP: req.Source.AsSlice(), Zone: req.Source.Zone()}
	}
	return net.DialUDP("udp", local, net.UDPAddrFromAddrPort(req.Target))
}
