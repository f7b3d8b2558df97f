package probe_test

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lastOfRR is the first byte of the last request of an rr test over TCP.
const lastOfRR = 1

// liar stands between a client and an honest server, and lies in the server's name:
// it passes on everything, and changes the frames of some types as it is told.
type liar struct {
	servertest.Forwarder
	target netip.AddrPort
	udp    *net.UDPConn
	types  []protocol.Type
	lie    lie
	peers  map[netip.AddrPort]*net.UDPConn
}

// lie makes of an honest frame the frames that the client gets, and then says whether the
// connection is to end.
type lie func(to net.Conn, kind protocol.Type, payload []byte) (end bool)

// startLiar lies in the frames of some types, for the length of the test.
func startLiar(t testing.TB, target netip.AddrPort, lie lie, types ...protocol.Type) netip.AddrPort {
	t.Helper()
	l := &liar{target: target, types: types, lie: lie, peers: map[netip.AddrPort]*net.UDPConn{}}
	var ln net.Listener
	var err error
	for range 100 { // a port that is free for both
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if l.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(ln.Addr().(*net.TCPAddr).AddrPort())); err == nil {
			break
		}
		_ = ln.Close()
	}
	testutil.OK(t, err)
	address := l.ListenOn(ln, target, l.pair)
	l.Go(l.relay)
	t.Cleanup(l.Close)
	t.Cleanup(func() { _ = l.udp.Close() })
	return address
}

// relay passes packets on, each client's from a port of its own.
func (l *liar) relay() {
	in := make([]byte, 1<<16)
	for {
		n, from, err := l.udp.ReadFromUDPAddrPort(in)
		if err != nil {
			return
		}
		peer := l.peers[from]
		if peer == nil {
			if peer, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(l.target)); err != nil {
				continue
			}
			l.peers[from] = peer
			l.Keep(peer)
			l.Go(func() {
				back := make([]byte, 1<<16)
				for {
					n, err := peer.Read(back)
					if err != nil {
						return
					}
					_, _ = l.udp.WriteToUDPAddrPort(back[:n], from) // what is lost is lost
				}
			})
		}
		_, _ = peer.Write(in[:n])
	}
}

func (l *liar) pair(_ int, client, server net.Conn) {
	c := &lyingConn{liar: l, client: client, server: server}
	// An end that goes takes the other with it, but for what is under way.
	l.Go(func() { c.there(); _ = server.(*net.TCPConn).CloseWrite() })
	l.Go(func() { c.back(); _ = client.(*net.TCPConn).CloseWrite() })
}

// lyingConn is one connection through a liar.
type lyingConn struct {
	*liar
	client, server net.Conn
	// messages, of an rr test over TCP, says that messages and not frames follow the
	// client's START and the server's READY; requests is how many there were, once
	// the client has sent its last.
	messages atomic.Pointer[measurement.Spec]
	requests atomic.Int64
}

// there passes on what the client says, and learns what test it is.
func (c *lyingConn) there() {
	preface := make([]byte, protocol.PrefaceBytes)
	if _, err := io.ReadFull(c.client, preface[:1]); err != nil {
		return
	}
	_, _ = c.server.Write(preface[:1])
	if preface[0] != protocol.PrefaceMagic { // a transaction
		_, _ = io.Copy(c.server, c.client)
		return
	}
	if _, err := io.ReadFull(c.client, preface[1:]); err != nil {
		return
	}
	_, _ = c.server.Write(preface[1:])
	var open protocol.Open
	for {
		h, err := protocol.ReadHeader(c.client)
		if err != nil {
			return
		}
		if h.Type == protocol.TypeData {
			c.pass(c.server, c.client, h)
			continue
		}
		payload, err := protocol.ReadPayload(c.client, h, protocol.MaxControl)
		if err != nil {
			return
		}
		if h.Type == protocol.TypeOpen {
			_ = json.Unmarshal(payload, &open)
			if open.Spec.Kind == measurement.RR && open.Spec.Protocol == measurement.OverTCP {
				c.messages.Store(&open.Spec)
			}
		}
		frame(c.server, h.Type, payload)
		if h.Type == protocol.TypeStart && c.messages.Load() != nil {
			break
		}
	}
	request := make([]byte, open.Spec.RequestBytes)
	for n := int64(1); ; n++ {
		if _, err := io.ReadFull(c.client, request); err != nil {
			return
		}
		if request[0] == lastOfRR {
			c.requests.Store(n)
		}
		_, _ = c.server.Write(request)
	}
}

func (c *lyingConn) pass(to io.Writer, from io.Reader, h protocol.Header) {
	var header [protocol.HeaderBytes]byte
	protocol.PutHeader(header[:], h.Type, h.Length)
	_, _ = to.Write(header[:])
	_, _ = io.CopyN(to, from, int64(h.Length)) // an end that is gone shows at the next read
}

// frame writes one that need not be right.
func frame(to io.Writer, kind protocol.Type, payload []byte) {
	b := make([]byte, protocol.HeaderBytes, protocol.HeaderBytes+len(payload))
	protocol.PutHeader(b, kind, len(payload))
	_, _ = to.Write(append(b, payload...)) // an end that is gone shows at the next read
}

// back passes on what the server says, and lies.
func (c *lyingConn) back() {
	preface := make([]byte, protocol.PrefaceBytes)
	if _, err := io.ReadFull(c.server, preface[:1]); err != nil {
		return
	}
	_, _ = c.client.Write(preface[:1])
	if preface[0] != protocol.PrefaceMagic {
		_, _ = io.Copy(c.client, c.server)
		return
	}
	if _, err := io.ReadFull(c.server, preface[1:]); err != nil {
		return
	}
	_, _ = c.client.Write(preface[1:])
	const frames = -1
	for answered := int64(frames); ; {
		if spec := c.messages.Load(); answered != frames {
			response := make([]byte, spec.ResponseBytes)
			if _, err := io.ReadFull(c.server, response); err != nil {
				return
			}
			_, _ = c.client.Write(response)
			if answered++; answered == c.requests.Load() {
				answered = frames // REPORT
			}
			continue
		}
		h, err := protocol.ReadHeader(c.server)
		if err != nil {
			return
		}
		if h.Type == protocol.TypeData {
			c.pass(c.client, c.server, h)
			continue
		}
		payload, err := protocol.ReadPayload(c.server, h, protocol.MaxControl)
		if err != nil {
			return
		}
		if h.Type == protocol.TypeReady {
			// What is in between shall not show.
			payload = probetest.Changed(payload, "server", c.client.LocalAddr().String())
		}
		if h.Type == protocol.TypeReady && c.messages.Load() != nil {
			answered = 0
		}
		if !slices.Contains(c.types, h.Type) {
			frame(c.client, h.Type, payload)
		} else if c.lie(c.client, h.Type, payload) {
			return
		}
	}
}
