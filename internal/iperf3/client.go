package iperf3

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// ErrBusy says that the server runs another test: a stock server runs one at a
// time, and this project's refuses this way when it demands a token.
var ErrBusy = errors.New("the iperf3 server is busy with another test, or accepts no iperf3 client: try again later, or ask its operator")

// errEnded says that the server's owner ended it.
var errEnded = errors.New("the iperf3 server was ended")

// ErrNoServer says that what took the connection does not answer as an iperf3 server
// does, which greets at once whatever else it does.
var ErrNoServer = errors.New("something took the connection, and does not answer as an iperf3 server does; is another program at that port?")

// ErrUnanswered says that the server closed the connection in place of an answer to the
// parameters: iperf3 3.21 does not say why it lets a client without a name in no further.
var ErrUnanswered = errors.New("the iperf3 server read what to test and closed the connection without a word; one of version 3.21 does so if it demands a user name and a password, which hopbench cannot give")

// ErrOneWay says that the server closed the streams on which it was to send: one before 3.7
// knows no test of both directions, and opens only the streams of the client's.
var ErrOneWay = errors.New("the iperf3 server closed the streams of its own direction at once, as one before 3.7 does, which cannot test both directions at the same time: test one after the other, or use a newer server")

// Request is one test against an iperf3 server.
type Request struct {
	Target netip.AddrPort
	Source netip.Addr // to send from, when valid
	// SourcePort is the port of the first stream, each further one takes the
	// next; 0 leaves the choice to the kernel.
	SourcePort int
	Device     string // SO_BINDTODEVICE

	UDP       bool
	Direction measurement.Direction
	Streams   int // in each direction
	Seconds   int // measured
	Omit      int // seconds discarded before

	Congestion  string
	MSS         int     // bytes
	Window      int     // bytes of either socket buffer
	TOS         int     // the whole byte
	FQRate      float64 // bit/s of each TCP stream, paced by the kernel
	Rate        float64 // bit/s of payload of each stream; 0 does not bound it
	Bounded     bool    // Rate is a bound: what a path held up is not made up for at once
	PacketBytes int     // UDP payload; 0 is the MSS of the control connection

	// BinWidth of the count of received bytes.
	BinWidth time.Duration
	// Started, when not nil, is told when the streams began.
	Started func(time.Time)
	// Watch, when not nil, gets what reads the streams of a TCP test when they began. What
	// it returns is called before they are closed.
	Watch func(start time.Time, streams []ReadStream) (ended func())
}

// Result is what both ends counted. Times are since the streams began; the
// omitted start is part of the bins only.
type Result struct {
	Streams []StreamResult
	// Bins count what this end received on all streams, the omitted start
	// included; nil if it received nothing.
	Bins *measurement.Bins
	// Took is the measured time by this end's clock.
	Took time.Duration
	// ServerCPUPercent of one CPU is what the server's process used.
	ServerCPUPercent float64
	Congestion       string // this end's algorithm
	ServerCongestion string
	PacketBytes      int // UDP payload
	MSSBytes         int // of a TCP stream, 0 if unknown
	DiscardsInKernel bool
	Facts            []string
}

// StreamResult is one stream.
type StreamResult struct {
	Reverse       bool // the server sent
	Local, Remote string
	// Received is the receiver's count and ReceivedSeconds its time; Sent the
	// sender's count. All without the omitted start.
	Received        int64
	ReceivedSeconds float64
	Sent            int64
	SentSeconds     float64
	// Retransmits of the sender after the omitted start; -1 if unknown.
	Retransmits int64

	// Of a UDP stream: datagrams sent, and what the receiver made of them.
	// OutOfOrder is -1 where the other end received: it does not tell.
	Packets, Lost, OutOfOrder int64
	JitterSeconds             float64

	// Final and Info are the TCP_INFO of a stream on which this end sent.
	Final *measurement.TCPInfo
	Info  []measurement.TCPInfo
}

// RemoteError is the reason with which a server refused or ended a test.
type RemoteError struct {
	Code  int32
	Errno syscall.Errno // of the server's operating system, 0 for none
}

func (e *RemoteError) Error() string {
	text := "the iperf3 server refused: " + code(e.Code).String()
	// Of these an iperf3 server sends an error of an earlier call.
	if e.Errno != 0 && !e.Limit() && !e.Unauthorized() && code(e.Code) != codeBuffer {
		text += fmt.Sprintf(" (its system said %v)", e.Errno)
	}
	return text
}

// Limit says that the server's limits forbid the test.
func (e *RemoteError) Limit() bool {
	return e.late() || code(e.Code) == codeStreams || code(e.Code) == codeTotalRate
}

// late says that the test took the server too long.
func (e *RemoteError) late() bool {
	switch code(e.Code) {
	case codeDuration, codeMaxDuration, codeExpired:
		return true
	}
	return false
}

// Unauthorized says that the server lets in only who proves who he is.
func (e *RemoteError) Unauthorized() bool { return code(e.Code) == codeAuthorization }

// StreamError is why a stream could not be opened: the server was reached before.
type StreamError struct {
	Number, Of int
	Err        error
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("open stream %d of %d: %v", e.Number, e.Of, e.Err)
}

// Unwrap gives the cause.
func (e *StreamError) Unwrap() error { return e.Err }

// client is a test in progress.
type client struct {
	*transfer
	req     Request
	cookie  cookie
	params  params
	control *net.TCPConn
	streams []*stream
	ends    []endpoints
	infos   []*tcpinfo.Sampler
	facts   []string
}

type endpoints struct{ local, remote string }

// Run does one test. It ends when ctx does; progress is called from one
// goroutine at a time and never after Run returned.
func Run(ctx context.Context, req Request, progress func(measurement.Progress)) (Result, error) {
	t := &client{req: req, cookie: newCookie()}
	c, err := t.dial(ctx, "tcp", 0, options{device: req.Device, tos: req.TOS})
	if err != nil {
		return Result{}, fmt.Errorf("connect to the iperf3 server: %w", err)
	}
	t.control = c.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { _ = t.control.Close() })
	defer stop()
	defer t.close()
	result, err := t.run(ctx, progress)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

func (t *client) close() {
	if t.transfer != nil {
		t.end(t.streams)
	}
	for _, s := range t.streams {
		_ = s.conn.Abort() // what is still queued belongs to no measurement
	}
	_ = t.control.Close() // whatever it fails of, the test is over
}

func (t *client) dial(ctx context.Context, network string, port int, o options) (net.Conn, error) {
	d := net.Dialer{Timeout: messageTimeout, Control: func(_, _ string, raw syscall.RawConn) error { return o.apply(raw) }}
	if t.req.Source.IsValid() || port != 0 {
		local := netip.AddrPortFrom(t.req.Source, uint16(port))
		if !t.req.Source.IsValid() {
			local = netip.AddrPortFrom(unspecified(t.req.Target.Addr()), uint16(port))
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(local)
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(local)
		}
	}
	return d.DialContext(ctx, network, t.req.Target.String())
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Unmap().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (t *client) run(ctx context.Context, progress func(measurement.Progress)) (Result, error) {
	if err := t.agree(); err != nil {
		return Result{}, err
	}
	for i := range t.params.streams() {
		if err := t.open(ctx, i); err != nil {
			return Result{}, t.preferServer(&StreamError{Number: i + 1, Of: t.params.streams(), Err: err})
		}
	}
	if err := t.expect(testStart); err != nil {
		return Result{}, err
	}
	if err := t.expect(testRunning); err != nil {
		return Result{}, err
	}
	use := startUsage()
	t.start = time.Now()
	t.clock = params{}.clock(t.start) // of old servers, which tell no version; newer ones need none
	if t.req.Started != nil {
		t.req.Started(t.start)
	}
	for _, s := range t.streams {
		s.launch()
	}
	ended := t.watched()
	err := t.transferData(ctx, progress)
	ended()
	if err != nil {
		return Result{}, err
	}
	user, system := use.percent()
	return t.finish(user, system)
}

// agree takes the test to the server's CREATE_STREAMS.
func (t *client) agree() error {
	if err := t.control.SetDeadline(time.Now().Add(cookieTimeout)); err != nil {
		return err
	}
	if err := t.beGreeted(); err != nil {
		return err
	}
	if err := t.control.SetDeadline(time.Now().Add(turnTimeout)); err != nil {
		return err
	}
	t.ask()
	if err := writeMessage(t.control, t.told()); err != nil {
		return fmt.Errorf("send the parameters: %w", err)
	}
	err := t.expect(createStreams)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%w)", ErrUnanswered, err)
	}
	return err
}

// beGreeted sends the cookie, to which a server answers before anything is to be waited for.
func (t *client) beGreeted() error {
	_, err := t.control.Write(t.cookie[:])
	if err == nil {
		err = t.expect(paramExchange)
	}
	var remote *RemoteError
	if err == nil || errors.Is(err, ErrBusy) || errors.Is(err, errEnded) || errors.As(err, &remote) {
		return err
	}
	return fmt.Errorf("%w (%w)", ErrNoServer, err)
}

// ask writes the request as parameters.
func (t *client) ask() {
	r := t.req
	t.params = params{
		TCP: flag(!r.UDP), UDP: flag(r.UDP), Omit: float64(r.Omit), Time: float64(r.Seconds), Parallel: float64(r.Streams),
		Reverse: r.Direction == measurement.Receive, Bidirectional: r.Direction == measurement.Both,
		MSS: float64(r.MSS), Window: float64(r.Window), TOS: float64(r.TOS), Rate: r.Rate, FQRate: r.FQRate,
		Congestion: r.Congestion, WideCounters: numeric(r.UDP), Len: defaultBlock, PacingTimer: 1000, ClientVersion: "hopbench",
	}
	if r.UDP {
		t.params.Len = float64(r.PacketBytes)
		if r.PacketBytes == 0 {
			t.params.Len = float64(packetFor(t.control))
		}
	}
	t.transfer = &transfer{
		udp: r.UDP, wide: r.UDP, block: int(t.params.Len), rate: r.Rate, bounded: r.Bounded, omit: t.params.omit(),
		until:   t.params.omit() + t.params.length(),
		payload: sockets.NewPayload(), failed: make(chan error, 1),
	}
}

// told are the parameters as the server gets them. An iperf3 server (3.12) ignores fqrate, but
// for what it applies to later tests that set a window; every one keeps to bandwidth. It sends
// whole blocks, which are small here so that it sends steadily.
func (t *client) told() params {
	p := t.params
	if p.FQRate > 0 {
		p.Rate, p.FQRate = p.FQRate, 0
		p.Len = float64(min(max(int(p.Rate/8*pieceTime.Seconds()), leastPiece), defaultBlock))
	}
	return p
}

// expect reads the next state, which must be want.
func (t *client) expect(want state) error {
	var b [1]byte
	if _, err := io.ReadFull(t.control, b[:]); err != nil {
		return fmt.Errorf("wait for %s: %w", want, err)
	}
	return t.judge(state(b[0]), want)
}

// judge reads the reason of a state that is not the one wanted.
func (t *client) judge(got, want state) error {
	switch got {
	case want:
		return nil
	case accessDenied:
		return ErrBusy
	case serverTerminate:
		return errEnded
	case serverError:
		var b [8]byte
		if _, err := io.ReadFull(t.control, b[:4]); err != nil {
			return fmt.Errorf("read the server's reason: %w", err)
		}
		// Of a refusal for want of authorization, the error of the system does not follow.
		_ = t.control.SetReadDeadline(time.Now().Add(failureWait)) // the read fails, then
		if _, err := io.ReadFull(t.control, b[4:]); err != nil {
			clear(b[4:])
		}
		return &RemoteError{
			Code:  int32(binary.BigEndian.Uint32(b[:])),
			Errno: syscall.Errno(max(int32(binary.BigEndian.Uint32(b[4:])), 0)),
		}
	}
	return fmt.Errorf("%w: %s where %s was due", ErrMalformed, got, want)
}

// preferServer returns the server's own reason, where it sent one, over the
// failure that it caused here.
func (t *client) preferServer(err error) error {
	var b [1]byte
	_ = t.control.SetReadDeadline(time.Now().Add(failureWait)) // the read fails, then
	if _, readErr := io.ReadFull(t.control, b[:]); readErr != nil {
		return err
	}
	var remote *RemoteError
	if told := t.judge(state(b[0]), testStart); errors.As(told, &remote) || errors.Is(told, ErrBusy) {
		return told
	}
	return err
}

// open makes stream number i: an iperf3 server knows them by their order.
func (t *client) open(ctx context.Context, i int) error {
	port := 0
	if t.req.SourcePort > 0 {
		port = t.req.SourcePort + i
	}
	o := t.params.options()
	o.device = t.req.Device
	network := "tcp"
	if t.udp {
		network = "udp"
	}
	c, err := t.dial(ctx, network, port, o)
	if err != nil {
		return err
	}
	end := endpoints{c.LocalAddr().String(), c.RemoteAddr().String()}
	var conn *sockets.Conn
	switch c := c.(type) {
	case *net.UDPConn:
		if err = greet(ctx, c); err == nil {
			conn, err = sockets.DetachUDP(c)
		}
	case *net.TCPConn:
		if _, err = c.Write(t.cookie[:]); err == nil {
			conn, err = sockets.Detach(c)
		}
	}
	if err != nil {
		return errors.Join(err, ignoreClosed(c.Close()))
	}
	s := newStream(t.transfer, conn, i, t.params.receives(i))
	t.binsFor(s)
	t.streams, t.ends, t.infos = append(t.streams, s), append(t.ends, end), append(t.infos, nil)
	if t.udp {
		return nil
	}
	if name := t.req.Congestion; name != "" && s.sender {
		if err := conn.SetOptions(sockets.Options{CongestionControl: name}); err != nil {
			return err
		}
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

const (
	greetTries = 5
	greetWait  = time.Second
)

// greet has the server make its end of a UDP stream.
func greet(ctx context.Context, c *net.UDPConn) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [64]byte
	for range greetTries {
		if _, err := c.Write(helloOf[:]); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(greetWait)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := c.Read(b[:])
		switch {
		case err == nil && isReply(b[:n]):
			return c.SetReadDeadline(time.Time{})
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
	return fmt.Errorf("no answer to the first datagram within %v: is UDP port %s filtered? %w",
		greetTries*greetWait, c.RemoteAddr(), os.ErrDeadlineExceeded)
}

// packetFor is the payload of a datagram that fits where a TCP segment fits.
func packetFor(c *net.TCPConn) int {
	if mss := segmentOf(c); mss >= minDatagram {
		return min(mss, maxDatagram)
	}
	return defaultPacket
}

// transferData lets the streams run for the planned time and ends the test.
func (t *client) transferData(ctx context.Context, progress func(measurement.Progress)) error {
	l := listen(t.control)
	var signs sync.WaitGroup
	watching, stopWatching := context.WithCancel(ctx)
	signs.Go(func() { t.watch(watching, progress) })
	defer signs.Wait()
	defer stopWatching()
	timer := time.NewTimer(time.Until(t.start.Add(t.until)))
	defer timer.Stop()
	omitted := time.NewTimer(time.Until(t.start.Add(t.omit)))
	defer omitted.Stop()
	for {
		select {
		case m := <-l.message:
			if m.err != nil {
				return fmt.Errorf("the iperf3 server closed the test: %w", m.err)
			}
			if err := t.control.SetReadDeadline(time.Now().Add(messageTimeout)); err != nil {
				return err
			}
			return t.judge(m.state, exchangeResults)
		case <-omitted.C:
			for _, s := range t.streams {
				s.omitRetransmits = s.retransmits()
			}
		case err := <-t.failed:
			// The test's own connection tells why, if anything does.
			return errors.Join(t.explain(l), fmt.Errorf("a stream failed: %w", err))
		case <-timer.C:
			stopWatching()
			signs.Wait()
			return t.endTest(l)
		}
	}
}

// explain waits shortly for the server's reason.
func (t *client) explain(l *listener) error {
	_ = t.control.SetReadDeadline(time.Now().Add(failureWait)) // the read fails, then
	m := <-l.message
	switch {
	case errors.Is(m.err, os.ErrDeadlineExceeded) && t.oneWay():
		return ErrOneWay
	case m.err != nil:
		return nil
	}
	return t.judge(m.state, exchangeResults)
}

// oneWay says that a test of both directions got nothing but the state that refuses another
// client on each of the streams of which the server goes on without the rest.
func (t *client) oneWay() bool {
	for _, s := range t.streams {
		if !s.sender && s.bytes.Load() > 1 {
			return false
		}
	}
	return bool(t.params.Bidirectional)
}

// endTest stops the senders, says so, and waits until the server has stopped. The
// receivers go on: an old server that is blocked on its streams would not see
// the end.
func (t *client) endTest(l *listener) error {
	for _, s := range t.streams {
		if s.sender {
			s.halt.Store(true)
		}
	}
	if err := t.control.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	if err := writeState(t.control, testEnd); err != nil {
		return fmt.Errorf("end the test: %w", err)
	}
	m := <-l.message
	if m.err != nil {
		return fmt.Errorf("wait for %s: %w", exchangeResults, m.err)
	}
	err := t.judge(m.state, exchangeResults)
	if remote := new(RemoteError); errors.As(err, &remote) && remote.late() {
		return fmt.Errorf("end the test: %w", errUnheard) // by its limit it would have ended before
	}
	return err
}

// finish exchanges the results: this end's first.
func (t *client) finish(user, system float64) (Result, error) {
	if err := t.lostStream(); err != nil {
		return Result{}, err
	}
	t.end(t.streams)
	ours := results{CPUTotal: user + system, CPUUser: user, CPUSystem: system, HasRetransmits: -1}
	for _, s := range t.streams {
		if s.sender && !t.udp {
			ours.HasRetransmits = 1
		}
		if !t.udp && (s.sender || ours.Congestion == "") { // those that send come first
			ours.Congestion = s.conn.CongestionControl()
		}
		ours.Streams = append(ours.Streams, s.result(t.until, s.retransmits()))
	}
	if err := t.control.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return Result{}, err
	}
	if err := writeMessage(t.control, ours); err != nil {
		return Result{}, fmt.Errorf("send the results: %w", err)
	}
	var theirs results
	if err := readMessage(t.control, maxResults(len(t.streams)), &theirs); err != nil {
		return Result{}, fmt.Errorf("read the server's results: %w", err)
	}
	far, err := theirs.check(len(t.streams))
	if err == nil {
		err = t.believe(theirs, far)
	}
	if err != nil {
		return Result{}, err
	}
	if err := t.expect(displayResults); err != nil {
		return Result{}, err
	}
	// Whether the server hears it or not, the result is complete.
	_ = writeState(t.control, iperfDone)
	return t.result(ours, theirs, far), nil
}
