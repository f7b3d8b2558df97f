package datagram

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// Where something replaces the destination address, it may be a load balancer,
// which gives every flow to one of several servers. A UDP flow then does not
// end at the server of the TCP connection that it belongs to, except by chance,
// and that server alone knows the connection's cookie. So the client tries
// ports until one is answered: with n back ends it takes n on average.
const (
	// portsAtOnce are tried in the first moment and after every portsEvery
	// without an answer, up to maxPorts: among 16 back ends all of them miss
	// the right one in 7 of 10⁸ searches.
	portsAtOnce = 8
	portsEvery  = 50 * time.Millisecond
	maxPorts    = 256
	// searchTime bounds the search for what is not worth the time that a test over UDP takes
	// for it. One of 16 back ends is missed in 3 of 10⁵ searches.
	searchTime = time.Second
)

// Translated says that the server has another address than the one dialled.
func Translated(target netip.AddrPort, ready protocol.Ready) bool {
	server, err := netip.ParseAddrPort(ready.Server)
	return err == nil && plain(server) != plain(target)
}

func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Dial opens a UDP socket from local, whose invalid address or zero port
// the system chooses, to the server that sent ready.
func Dial(ctx context.Context, req session.Request, ready protocol.Ready, local netip.AddrPort) (*sockets.Conn, error) {
	if local.Port() != 0 || !Translated(req.Target, ready) {
		return sockets.DialUDP(ctx, local, plain(req.Target), req.Spec.Device)
	}
	s := portSearch{cookie: ready.Cookie, open: func() (*sockets.Conn, error) {
		return sockets.DialUDP(ctx, local, plain(req.Target), req.Spec.Device)
	}}
	conn, err := s.run(ctx)
	if err == nil && conn == nil {
		err = &session.Error{Op: "reach the server over UDP", Reason: session.TimedOut,
			Err: fmt.Errorf("packets from none of %d ports got to the right server, %s, while TCP did: a firewall may drop UDP to %s, which is translated", s.tried, ready.Server, req.Target)}
	}
	return conn, err
}

// dialPolled opens a UDP socket to the server that sent ready, with which Go's
// runtime waits. Its packets leave by the device, and with the mark, of the test's own: others
// may take another path.
func dialPolled(ctx context.Context, req session.Request, ready protocol.Ready) (*net.UDPConn, error) {
	dialer := net.Dialer{Control: sockets.Options{Device: req.Spec.Device, DSCP: req.Spec.DSCP}.Control}
	if req.Source.IsValid() {
		dialer.LocalAddr = &net.UDPAddr{IP: req.Source.AsSlice(), Zone: req.Source.Zone()}
	}
	if Translated(req.Target, ready) {
		searching, stop := context.WithTimeout(ctx, searchTime)
		defer stop()
		found, err := Dial(searching, req, ready, netip.AddrPortFrom(req.Source, 0))
		if err != nil {
			return nil, err
		}
		address, err := netip.ParseAddrPort(found.LocalAddr())
		if err := errors.Join(err, found.Close()); err != nil {
			return nil, err
		}
		dialer.LocalAddr = net.UDPAddrFromAddrPort(address)
	}
	c, err := dialer.DialContext(ctx, "udp", plain(req.Target).String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// portSearch looks for a port from which packets reach the server that knows a
// cookie.
type portSearch struct {
	cookie []byte
	open   func() (*sockets.Conn, error)
	conns  []*sockets.Conn
	tried  int
}

// run returns the socket that was answered, or nil when none was in
// helloTimeout. It closes the others.
func (s *portSearch) run(ctx context.Context) (found *sockets.Conn, err error) {
	defer func() {
		for _, c := range s.conns {
			if c != found || err != nil {
				_ = c.Close() // a UDP socket has nothing to flush
			}
		}
	}()
	echo := make([]byte, HeaderBytes)
	PutHeader(echo, s.cookie, Echo)
	// No request of a test has this number, so that a late answer is nobody's.
	binary.BigEndian.PutUint32(echo[SequenceOffset:], 1<<32-1)
	for deadline := time.Now().Add(helloTimeout); time.Now().Before(deadline); {
		if err := s.more(); err != nil {
			return nil, err
		}
		for _, c := range s.conns {
			// Whatever it says, the next one may pass.
			_, _ = c.Write(echo)
		}
		for next := time.Now().Add(portsEvery); time.Now().Before(next); thread.Sleep(pollEvery) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if c := s.answered(echo); c != nil {
				return c, nil
			}
		}
	}
	return nil, nil
}

func (s *portSearch) more() error {
	for range min(portsAtOnce, maxPorts-len(s.conns)) {
		c, err := s.open()
		if err != nil {
			return err
		}
		s.conns = append(s.conns, c)
		s.tried++
	}
	return nil
}

// answered is a socket to which echo came back, nil for none.
func (s *portSearch) answered(echo []byte) *sockets.Conn {
	in := make([]byte, HeaderBytes+1)
	for _, c := range s.conns {
		if !c.Readable() {
			continue
		}
		// An error is what a router said of an earlier packet.
		if n, err := c.Read(in); err == nil && bytes.Equal(in[:n], echo) {
			return c
		}
	}
	return nil
}

// maxNamed bounds how many back ends are named.
const maxNamed = 64

// Destinations says where the flows towards an address ended, if not there.
func Destinations(remote string, servers []string) []string {
	count := map[string]int{}
	for _, s := range servers {
		if s != "" && s != remote {
			count[s]++
		}
	}
	switch len(count) {
	case 0:
		return nil
	case 1:
		for server := range count {
			return []string{"the destination address is translated on the way: the source reached " + remote + ", the destination has " + server}
		}
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%d to %s", count[name], name))
	}
	if len(names) > maxNamed {
		parts = append(parts, "…")
	}
	return []string{
		fmt.Sprintf("%d flows towards %s went to %d back ends: %s", len(servers), remote, len(names), strings.Join(parts, ", ")),
		"the destination's CPUs and lost packets are those of the back end of the first flow, " + servers[0],
	}
}
