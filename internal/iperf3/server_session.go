package iperf3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/sockets"
)

// session is one test at the server. The goroutine of its control connection
// runs it.
type session struct {
	*transfer
	server *Server
	cookie cookie
	// control is the control connection, client and local its addresses.
	control       *net.TCPConn
	settle        func()
	hold          func(stop func())
	terminated    atomic.Bool
	client, local netip.AddrPort
	log           *slog.Logger
	params        params
	streams       []*stream
	congestion    string
	facts         []string
	usage         usage
	rows          []row
	counted       []func()
	ended         time.Duration    // when TEST_END came, since the start
	remotes       []netip.AddrPort // of UDP streams
	done          chan struct{}    // closed when the sockets of the streams are

	mu       sync.Mutex
	creating bool // streams may join
	joined   []joined
	full     chan struct{} // closed when all streams have joined
	hellos   chan hello
}

// joined is a TCP stream; order tells which it is.
type joined struct {
	conn  *sockets.Conn
	order uint64
}

// hello is the first datagram of a UDP stream.
type hello struct {
	from netip.AddrPort
	word [4]byte
}

// errVanished says that the client closed its control connection.
var errVanished = errors.New("the client vanished")

// errTerminated is of a test that this server ended when it was ended itself.
var errTerminated = errors.New("this server was ended")

func newSession(s *Server, id cookie, c *Conn, log *slog.Logger) *session {
	return &session{
		server: s, cookie: id, control: c.TCPConn, settle: c.Settle, hold: c.Hold, log: log,
		client: c.RemoteAddr().(*net.TCPAddr).AddrPort(),
		local:  c.LocalAddr().(*net.TCPAddr).AddrPort(),
		done:   make(chan struct{}), full: make(chan struct{}),
	}
}

// serve runs the test from the cookie to its end.
func (t *session) serve() error {
	defer t.close()
	if t.server.ending.Load() {
		t.server.deny(t.control)
		return errors.New("this server is ending: no new tests")
	}
	giveBack, err := t.take(admission.Cost{admission.Tests: 1, admission.Descriptors: 1})
	if err != nil {
		t.server.deny(t.control)
		return err
	}
	defer giveBack()
	t.settle()
	t.hold(t.terminate)
	err = t.phases()
	if r := new(refusal); errors.As(err, &r) {
		return errors.Join(err, t.refuse(r))
	}
	return err
}

// terminate ends the test because this server does. The client is told, so that it shows what
// there is, and leaves; if not, its connection ends soon.
func (t *session) terminate() {
	if t.terminated.Swap(true) {
		return
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(terminateWait)) // on a closed connection the write fails, too
	_ = writeState(t.control, serverTerminate)
	time.AfterFunc(terminateWait, func() { _ = t.control.Close() })
}

func (t *session) phases() (err error) {
	if err := t.exchangeParams(); err != nil {
		return err
	}
	giveBack, err := t.take(t.params.cost())
	if err != nil {
		if r, ok := errors.AsType[*admission.Refusal](err); ok {
			return refuse(codeStreams, "%v", r)
		}
		return err
	}
	defer giveBack()
	ended := t.announce()
	defer func() {
		if err != nil && t.terminated.Load() {
			err = errTerminated
		}
		ended(err)
	}()
	if err := t.open(); err != nil {
		return err
	}
	if err := t.begin(); err != nil {
		return err
	}
	if err := t.run(); err != nil {
		return err
	}
	return t.finish()
}

// refuse tells the client why: SERVER_ERROR, iperf3's code and the system's.
func (t *session) refuse(r *refusal) error {
	c := r.code
	// Old clients print a number for codes that they do not know.
	if (c == codeMaxDuration || c == codeExpired) && !t.params.knows(20) {
		c = codeDuration
	}
	if err := t.control.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	b := []byte{byte(256 + int(serverError))}
	for _, v := range []int32{int32(c), r.errno} {
		b = append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	if _, err := t.control.Write(b); err != nil {
		return err
	}
	// A client that writes to a stream which has ended fails of that, before it
	// reads the reason: the streams end after its connection has.
	for _, s := range t.streams {
		s.halt.Store(true)
	}
	if err := t.control.SetReadDeadline(time.Now().Add(failureWait)); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(t.control, maxParams)) // whatever ends it, the reason was sent
	return nil
}

// take takes from the server's budget, for which it waits if it must. The error is an
// *admission.Refusal where the budget has nothing left, or never had so much.
func (t *session) take(c admission.Cost) (giveBack func(), err error) {
	var refused error
	budget := t.server.opts.Budget
	err = t.await(func() (<-chan struct{}, error) {
		again := budget.Freed()
		giveBack, refused = budget.Take(t.client.Addr(), false, c)
		r, _ := errors.AsType[*admission.Refusal](refused)
		switch {
		case refused == nil:
			return nil, nil
		case r != nil && r.Ever():
			return nil, refused
		}
		return again, nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no turn for a client within %v: %w", turnTimeout, refused)
	}
	if err != nil && giveBack != nil {
		giveBack()
	}
	return giveBack, err
}

// await tries until that needs not be done again, whenever the returned channel is
// closed, unless the client vanishes or turnTimeout passes before.
func (t *session) await(try func() (again <-chan struct{}, err error)) error {
	again, err := try()
	if again == nil || err != nil {
		return err
	}
	l := listen(t.control)
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	for {
		select {
		case <-again:
			if again, err = try(); again == nil || err != nil {
				return errors.Join(err, l.end())
			}
		case m := <-l.message:
			return m.unexpected()
		case <-timer.C:
			return errors.Join(os.ErrDeadlineExceeded, l.end())
		}
	}
}

// refuseAfterParams lets nobody in: the protocol can say why only once the parameters
// were read. Nothing of the server's budget is taken for that, and nothing of them kept.
func (t *session) refuseAfterParams(why string) error {
	if err := t.say(paramExchange); err != nil {
		return err
	}
	if err := skipMessage(t.control, maxParams); err != nil {
		return fmt.Errorf("read the parameters: %w", err)
	}
	r := refuse(codeAuthorization, "%s", why)
	return errors.Join(r, t.refuse(r))
}

// say sends states, and gives the client messageTimeout for what it owes next.
func (t *session) say(states ...state) error {
	if err := t.control.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	return writeState(t.control, states...)
}

func (t *session) exchangeParams() error {
	if err := t.say(paramExchange); err != nil {
		return err
	}
	if err := readMessage(t.control, maxParams, &t.params); err != nil {
		if errors.Is(err, ErrMalformed) {
			return refuse(codeRecvParams, "%v", err)
		}
		return fmt.Errorf("read the parameters: %w", err)
	}
	if r := t.params.check(); r != nil {
		return r
	}
	return t.allow()
}

// allow compares the parameters with the server's limits.
func (t *session) allow() error {
	p, o := t.params, t.server.opts
	asked := max(p.Rate, p.FQRate) * float64(p.streams())
	switch {
	case int(p.Parallel) > o.MaxStreams:
		return refuse(codeStreams, "%v streams, this server allows %d", p.Parallel, o.MaxStreams)
	case p.omit()+p.length() > o.MaxDuration:
		return refuse(codeMaxDuration, "a test of %v, this server allows %v", p.omit()+p.length(), o.MaxDuration)
	case bool(p.UDP) && o.LacksUDP() != nil:
		return refuse(codeStreamListen, "the system of the server has no UDP for it: %v", o.LacksUDP())
	case o.MaxRate > 0 && asked > o.MaxRate:
		return refuse(codeTotalRate, "%.0f bit/s, this server allows %.0f", asked, o.MaxRate)
	}
	rate := p.Rate
	if o.MaxRate > 0 && rate == 0 {
		rate = o.MaxRate / float64(p.streams())
	}
	t.transfer = &transfer{
		udp: bool(p.UDP), wide: bool(p.WideCounters), block: int(p.Len), burst: int(p.Burst), rate: rate, bounded: o.MaxRate > 0,
		omit: p.omit(), payload: t.server.payload, failed: make(chan error, 1),
	}
	if !p.UDP && p.omit() == 0 {
		// What a TCP sender of so many bytes need not send more of. Datagrams
		// may be lost, so that only the client knows when it has enough.
		t.budget = int64(max(p.Bytes, p.Blocks*p.Len))
	}
	t.hellos = make(chan hello, 2*p.streams())
	return nil
}

// open has the client open its streams and waits for all.
func (t *session) open() error {
	if t.udp {
		leave, err := t.server.enter(t)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return refuse(codeStreamAccept, "another test from %s did not open its streams within %v", t.client.Addr(), turnTimeout)
			}
			return err
		}
		defer leave()
	}
	t.mu.Lock()
	t.creating = !t.udp
	t.mu.Unlock()
	if err := t.say(createStreams); err != nil {
		return err
	}
	l := listen(t.control)
	timer := time.NewTimer(streamsTimeout)
	defer timer.Stop()
	for {
		select {
		case m := <-l.message:
			return m.unexpected()
		case <-timer.C:
			return errors.Join(refuse(codeStreamAccept, "the client opened %d of %d streams within %v", t.have(), t.params.streams(), streamsTimeout), l.end())
		case err := <-t.failed:
			return errors.Join(err, l.end())
		case h := <-t.hellos:
			if err := t.answer(h); err != nil {
				return errors.Join(err, l.end())
			}
			if len(t.streams) == t.params.streams() {
				return l.end()
			}
		case <-t.full:
			t.adopt()
			return l.end()
		}
	}
}

func (t *session) have() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(len(t.joined), len(t.streams))
}

// join adds a TCP stream to the test and returns when the test has ended. An
// error leaves c as it was.
func (t *session) join(c *Conn) error {
	t.mu.Lock()
	open := t.creating && len(t.joined) < t.params.streams()
	if !open {
		t.mu.Unlock()
		return errors.New("the test with this cookie takes no more streams")
	}
	conn, err := t.prepare(c.TCPConn)
	if err != nil {
		t.mu.Unlock()
		t.fail(err)
		return err
	}
	t.joined = append(t.joined, joined{conn, c.Order})
	for i := len(t.joined) - 1; i > 0 && t.joined[i-1].order > t.joined[i].order; i-- { // in which they were accepted
		t.joined[i-1], t.joined[i] = t.joined[i], t.joined[i-1]
	}
	if len(t.joined) == t.params.streams() {
		t.creating = false
		close(t.full)
	}
	t.mu.Unlock()
	c.Settle()
	c.Hold(t.terminate) // not the stream alone, of whose end its client would fail
	<-t.done
	c.Hold(nil)
	return nil
}

// prepare sets the options of a TCP stream and takes its socket.
func (t *session) prepare(c *net.TCPConn) (*sockets.Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := t.params.options()
	o.mss = 0 // the client's own bound, which it announced, is that of both ends
	if err := o.apply(raw); err != nil {
		return nil, err
	}
	if err := errors.Join(c.SetDeadline(time.Time{}), c.SetNoDelay(bool(t.params.NoDelay))); err != nil {
		return nil, err
	}
	return sockets.Detach(c)
}

// adopt makes the TCP streams those of the test.
func (t *session) adopt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, j := range t.joined {
		t.streams = append(t.streams, t.newStream(j.conn, i))
	}
	t.joined = nil
}

// answer makes the stream of a hello and lets the client know.
func (t *session) answer(h hello) error {
	if slices.Contains(t.remotes, h.from) {
		return nil // it came twice
	}
	t.remotes = append(t.remotes, h.from)
	local := netip.AddrPortFrom(t.local.Addr().Unmap(), t.local.Port())
	ctx, cancel := context.WithTimeout(context.Background(), messageTimeout)
	defer cancel()
	c, err := t.server.connect(ctx, local, h.from, t.params.options())
	if err != nil {
		return err
	}
	reply := hellos[h.word]
	if _, err := c.Write(reply[:]); err != nil {
		return errors.Join(fmt.Errorf("answer a stream: %w", err), c.Close())
	}
	conn, err := sockets.DetachUDP(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	t.streams = append(t.streams, t.newStream(conn, len(t.streams)))
	return nil
}

// newStream is stream number i of the test.
func (t *session) newStream(conn *sockets.Conn, i int) *stream {
	s := newStream(t.transfer, conn, i, !t.params.receives(i))
	t.counted = append(t.counted, t.server.opts.Count(t.client.Addr(), s.sender, s.bytes.Load))
	return s
}

// close ends whatever of the test is left.
func (t *session) close() {
	t.mu.Lock()
	t.creating = false
	rest := t.joined
	t.mu.Unlock()
	if t.transfer != nil {
		t.end(t.streams)
	}
	for _, j := range rest {
		t.discard(j.conn)
	}
	for _, s := range t.streams {
		t.discard(s.conn)
	}
	for _, done := range t.counted {
		done()
	}
	close(t.done)
}

func (t *session) discard(c *sockets.Conn) {
	// What is still queued belongs to no measurement.
	if err := c.Abort(); err != nil {
		t.log.Info("close a stream", "error", err)
	}
}

// listener waits for one message of the client, so that its vanishing is seen
// while something else is awaited.
type listener struct {
	conn    *net.TCPConn
	message chan message
}

type message struct {
	state state
	err   error
}

// listen has c's next byte read, without a deadline. Either message or end
// must be received from.
func listen(c *net.TCPConn) *listener {
	l := &listener{conn: c, message: make(chan message, 1)}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		l.message <- message{err: err}
		return l
	}
	go func() {
		var b [1]byte
		_, err := io.ReadFull(c, b[:])
		l.message <- message{state(b[0]), err}
	}()
	return l
}

// end stops listening. It is an error if there was a message.
func (l *listener) end() error {
	// It fails only on a closed connection, whose read fails by itself.
	_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	m := <-l.message
	if errors.Is(m.err, os.ErrDeadlineExceeded) {
		return l.conn.SetReadDeadline(time.Time{})
	}
	return m.unexpected()
}

// unexpected is the error of a message that ends a test.
func (m message) unexpected() error {
	switch {
	case m.err != nil:
		return fmt.Errorf("%w: %w", errVanished, m.err)
	case m.state == clientTerminate, m.state == iperfDone:
		return fmt.Errorf("the client ended the test (%s)", m.state)
	}
	return refuse(codeMessage, "the client sent %s, which is not its turn", m.state)
}
