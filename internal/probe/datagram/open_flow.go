package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

const (
	// helloTimeout is how long a client tries to reach the server over UDP,
	// helloEvery how often.
	helloTimeout = 3 * time.Second
	helloEvery   = 50 * time.Millisecond
	// pollEvery is how often the TCP connection is looked at meanwhile.
	pollEvery = 500 * time.Microsecond
	// UnknownMTU is what every path carries (RFC 8200 section 5).
	UnknownMTU     = 1280
	UDPHeaderBytes = 8
)

// Flows are the flows at a server that wait for their first UDP packet.
type Flows struct {
	mu      sync.Mutex
	last    uint32 // number of READY that was given last
	waiting map[key]chan netip.AddrPort
}

// key is what the first packet of a flow shows.
type key struct {
	cookie [protocol.CookieBytes]byte
	client netip.Addr
	number uint32
}

// NewFlows are those of a server that waits for none.
func NewFlows() *Flows { return &Flows{waiting: map[key]chan netip.AddrPort{}} }

// expect gives a flow of a test the number by which arrived finds it, until forget is
// called.
func (u *Flows) expect(t *session.Test) (number uint32, from <-chan netip.AddrPort, forget func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	flow := key{t.Cookie, t.Client, u.last}
	waiting := make(chan netip.AddrPort, 1)
	u.waiting[flow] = waiting
	return flow.number, waiting, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.waiting, flow)
	}
}

// Arrived tells the flow that waits for packet, if any does, where that came from.
func (u *Flows) Arrived(packet []byte, from netip.AddrPort) {
	u.mu.Lock()
	defer u.mu.Unlock()
	waiting, ok := u.waiting[key{
		[protocol.CookieBytes]byte(packet[:protocol.CookieBytes]), admission.Address(from.Addr()), binary.BigEndian.Uint32(packet[SequenceOffset:]),
	}]
	if !ok {
		return
	}
	select {
	case waiting <- from:
	default: // a copy; the first one will do
	}
}

// Accept sends READY, waits for the flow's first UDP packet, connects a socket
// to where it came from and says so. Whoever cannot receive at that address
// never learns the cookie, so nothing is ever sent to others.
func (u *Flows) Accept(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) (*sockets.Conn, error) {
	number, from, forget := u.expect(open.Test)
	defer forget()
	ready.UDPFlow = number
	w.Until(time.Now().Add(session.StartTimeout))
	if err := protocol.WriteFrame(w, protocol.TypeReady, ready); err != nil {
		return nil, err
	}
	client, err := awaitHello(w, from)
	if err != nil {
		return nil, err
	}
	conn, err := Connect(context.Background(), open.Test.Spec, ready, client)
	if err != nil {
		return nil, &protocol.RemoteError{Reason: string(session.Unsupported), Message: err.Error()}
	}
	if err := protocol.WriteFrame(w, protocol.TypeReached, protocol.Reached{Client: client.String()}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Connect opens a server's socket for the packets of one client, at the address that ready
// has of this end, with the options of a spec.
func Connect(ctx context.Context, spec measurement.Spec, ready *protocol.Ready, client netip.AddrPort) (*sockets.Conn, error) {
	local, err := netip.ParseAddrPort(ready.Server)
	if err != nil {
		return nil, fmt.Errorf("own address: %w", err)
	}
	c, err := sockets.ConnectUDP(ctx, local, client)
	if err != nil {
		return nil, err
	}
	conn, err := sockets.DetachUDP(c)
	if err != nil {
		return nil, errors.Join(err, session.IgnoreClosed(c.Close()))
	}
	if err := SetOptions(conn, spec); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// awaitHello also notices when the client gives up.
func awaitHello(w *session.ControlConn, from <-chan netip.AddrPort) (netip.AddrPort, error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case client := <-from:
			return client, nil
		case <-poll.C:
		}
		if w.Late() {
			return netip.AddrPort{}, &protocol.RemoteError{Reason: string(session.TimedOut), Message: "no UDP packet of the client came: a firewall may drop UDP"}
		}
		if w.Readable() {
			if _, _, err := protocol.ReadFrame(w, protocol.MaxUnauthenticated); err != nil {
				return netip.AddrPort{}, err
			}
			return netip.AddrPort{}, fmt.Errorf("%w: a frame before the first UDP packet", protocol.ErrMalformed)
		}
	}
}

// Open opens a flow's UDP socket at the client and has the server connect to
// it. Every other of the first packets is as large as payload, in bytes, or as the path takes,
// if that is less, to learn of a router that does not carry it.
func Open(ctx context.Context, req session.Request, l *session.Link, flow int, mode sockets.FragmentMode, payload int) (*sockets.Conn, protocol.Reached, error) {
	var reached protocol.Reached
	source := req.Source
	if !source.IsValid() {
		// The same as TCP's, so that the server knows the address.
		if a, err := netip.ParseAddrPort(l.Local); err == nil {
			source = a.Addr().Unmap()
		}
	}
	port := 0
	if req.Spec.SourcePort > 0 {
		port = req.Spec.SourcePort + flow
	}
	conn, err := Dial(ctx, req, l.Ready, netip.AddrPortFrom(source, uint16(port)))
	if err != nil {
		return nil, reached, err
	}
	fail := func(err error) (*sockets.Conn, protocol.Reached, error) {
		return nil, reached, errors.Join(err, conn.Close())
	}
	if err := SetOptions(conn, req.Spec); err != nil {
		return fail(err)
	}
	if err := conn.SetFragmentMode(mode); err != nil && !errors.Is(err, sockets.ErrUnsupported) {
		return fail(err)
	}
	// What is answered to the first packets says more than that they did not arrive.
	if err := conn.QueuePathErrors(true); err != nil && !errors.Is(err, sockets.ErrUnsupported) {
		return fail(err)
	}
	w := session.ControlConn{Conn: l.Conn, Deadline: time.Now().Add(helloTimeout)}
	var rejection sockets.PathError
	var rejected bool
	var unsent error // why the last of them did not leave
	for tries := 0; !w.Readable(); tries++ {
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
		if r, found := conn.Rejection(); found {
			rejection, rejected = r, true
		}
		if w.Late() {
			e := &session.Error{Op: "reach the server over UDP", Reason: session.TimedOut}
			switch none := fmt.Sprintf("none of %d packets got there, while TCP did", tries); {
			case errors.Is(unsent, syscall.EPERM):
				e.Reason, e.Err = session.Local, fmt.Errorf("this host lets no UDP packets to %s out (%w): its own firewall drops them", req.Target, unsent)
			case rejected:
				e.Err = fmt.Errorf("%s: %s answered: %s (ICMP): UDP to %s is rejected there%s", none, rejection.From,
					wire.Describe(rejection.V6, rejection.Type, rejection.Code), req.Target, fixedPort(req, l.Ready))
			default:
				e.Err = fmt.Errorf("%s: a firewall may drop UDP to %s%s", none, req.Target, fixedPort(req, l.Ready))
			}
			return fail(e)
		}
		length := HeaderBytes
		if tries%2 == 0 {
			length = max(length, min(payload, LargestPayload(conn)))
		}
		hello := make([]byte, length)
		PutHeader(hello, l.Ready.Cookie, Hello)
		binary.BigEndian.PutUint32(hello[SequenceOffset:], l.Ready.UDPFlow)
		unsent = sendHello(conn, hello)
		for next := time.Now().Add(helloEvery); !w.Readable() && time.Now().Before(next); {
			thread.Sleep(pollEvery)
		}
	}
	if err := conn.QueuePathErrors(false); err != nil && !errors.Is(err, sockets.ErrUnsupported) {
		return fail(err)
	}
	w.Deadline = time.Now().Add(session.HandshakeTimeout)
	if err := protocol.Expect(&w, protocol.TypeReached, protocol.MaxControl, &reached); err != nil {
		return fail(err)
	}
	reached.Client = session.InOwnZone(reached.Client, conn.LocalAddr())
	return conn, reached, nil
}

// sendHello sends one of the first packets. What a router or a host answered to the one before,
// which was larger, is an error of the next write, and nothing leaves: without a second write
// the smaller ones never would. Whatever that says, the next one may pass; if none does, time
// is up.
func sendHello(conn *sockets.Conn, hello []byte) error {
	_, err := conn.Write(hello)
	if err != nil {
		_, err = conn.Write(hello)
	}
	return err
}

// fixedPort is a further reason why UDP may not get through.
func fixedPort(req session.Request, ready protocol.Ready) string {
	if req.Spec.SourcePort == 0 || !Translated(req.Target, ready) {
		return ""
	}
	return ", or a load balancer gives that source port to another back end than TCP's (leave source_port out: a free one will be found)"
}

// SetOptions sets what a spec asks of a UDP socket; TCP connections have it before their
// handshake.
func SetOptions(conn *sockets.Conn, spec measurement.Spec) error {
	o := session.FlowOptions(spec, false)
	o.MSS = 0 // of the control connection
	if err := conn.SetOptions(o); err != nil {
		return &session.Error{Op: "prepare the socket", Reason: session.Unsupported, Err: err}
	}
	return nil
}

// LargestPayload is the UDP payload that fits the path's MTU as this host knows it.
func LargestPayload(conn *sockets.Conn) int {
	mtu := conn.PathMTU()
	if mtu == 0 {
		mtu = UnknownMTU
	}
	return min(max(mtu-conn.IPHeaderBytes()-UDPHeaderBytes, DataBytes), MaxBytes)
}
