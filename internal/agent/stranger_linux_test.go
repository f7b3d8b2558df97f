package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stranger is a host that agreed to nothing.
var stranger = netip.MustParseAddr("127.0.0.2")

// received is what an agent sent to the stranger: connections and payload of TCP, and
// packets of everything else.
type received struct{ connections, payload, others int }

// sentinel ends what one test sent, on this port of UDP.
const sentinel = 9

// watcher sees every packet to the stranger.
type watcher struct {
	fd       int
	sentinel net.PacketConn
}

func watchStranger(t *testing.T) *watcher {
	t.Helper()
	var order [2]byte
	binary.BigEndian.PutUint16(order[:], unix.ETH_P_IP)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(binary.NativeEndian.Uint16(order[:])))
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, unix.Close(fd)) })
	end, err := net.ListenPacket("udp", netip.AddrPortFrom(stranger, sentinel).String())
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, end.Close()) })
	return &watcher{fd, end}
}

// upToNow is what the stranger was sent since it was asked last.
func (w *watcher) upToNow(t *testing.T) (r received) {
	t.Helper()
	_, err := w.sentinel.WriteTo([]byte("end"), w.sentinel.LocalAddr())
	testutil.OK(t, err)
	packet := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(w.fd, packet, 0)
		testutil.OK(t, err)
		link, ok := from.(*unix.SockaddrLinklayer)
		const header = 20
		if !ok || link.Pkttype != unix.PACKET_HOST || n < header || netip.AddrFrom4([4]byte(packet[16:20])) != stranger {
			continue
		}
		ip := packet[:n]
		transport := ip[4*int(ip[0]&15):]
		switch ip[9] {
		case unix.IPPROTO_TCP:
			const syn, ack = 2, 16
			if transport[13]&(syn|ack) == syn {
				r.connections++
			}
			r.payload += len(transport) - 4*int(transport[12]>>4)
		case unix.IPPROTO_UDP:
			if binary.BigEndian.Uint16(transport[2:]) == sentinel {
				return r
			}
			r.others++
		default:
			r.others++
		}
	}
}

// An agent that serves a coordinator over a network sends no load to a host that did not
// prove the token, whatever it is told: no packet but those of one attempt to prove it.
func TestStrangersGetNoLoad(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, strangersGetNoLoad)
}

func strangersGetNoLoad(t *testing.T) {
	testutil.OK(t, testutil.LoopbackUp())
	friend := remote(t, Options{})
	at, err := friend.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	other, err := friend.Listen(testContext(t), netip.AddrPortFrom(stranger, 0), Serving{Token: "of somebody else"})
	testutil.OK(t, err)
	strangers := map[string]netip.AddrPort{
		"nobody": netip.AddrPortFrom(stranger, 4), "a server with another token": other,
		"a web server": testutil.ListenAt(t, stranger, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}),
		"an echo": testutil.ListenAt(t, stranger, func(c net.Conn) { _, _ = io.Copy(c, c) }),
	}
	near := remote(t, Options{})
	// What proved the token is no reason to send anything elsewhere.
	_, err = near.Prove(testContext(t), probe.Request{Target: at, Token: testToken})
	testutil.OK(t, err)
	w := watchStranger(t)
	w.upToNow(t)
	// An attempt: HELLO and PROOF, with a second one for an answer that may come late.
	const mostPayload = 1024
	check := func(what string, mostConnections int) {
		t.Helper()
		got := w.upToNow(t)
		if got.others > 0 || got.connections > mostConnections || got.payload > mostPayload*mostConnections {
			t.Errorf("%s: the stranger got %d connections with %d bytes, and %d other packets", what, got.connections, got.payload, got.others)
		}
	}
	tests := probetest.Shortest(t)
	tests["stock ftp"] = measurement.Spec{Kind: measurement.FTP, FilePath: "/file"}
	for who, target := range strangers {
		for name, spec := range tests {
			attempts := 1
			if !probe.Proves(spec) {
				attempts = 0
			}
			for _, request := range []probe.Request{
				{ID: "t", Target: target, Token: testToken, Spec: spec},
				{ID: "t", Target: target, Spec: spec}, // the token that everybody has
			} {
				_, err := near.Run(testContext(t), request, nil)
				if e, ok := errors.AsType[*probe.Error](err); !ok || attempts == 0 && e.Reason != probe.Limit {
					t.Errorf("%s to %s: %v", name, who, err)
				}
				check(fmt.Sprintf("%s to %s", name, who), attempts)
			}
		}
		_, err := near.Canary(testContext(t), CanaryRequest{Target: target, UserAgent: "x", Timeout: 1})
		if err == nil {
			t.Error("a canary was sent to a stranger")
		}
		check("canary to "+who, 0)
		if _, err := near.Prove(testContext(t), probe.Request{Target: target, Token: testToken}); err == nil {
			t.Errorf("%s proved the token", who)
		}
		check("proof to "+who, 1)
	}
	// Nor is a client traced that did not prove the token of the agent's own server.
	own, err := near.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	w.upToNow(t)
	back := probe.Request{ID: "t", Target: netip.AddrPortFrom(stranger, 4), Spec: measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverTCP}.Defaults()}
	for _, token := range []string{"of somebody else", testToken} {
		_, err := probe.Prove(testContext(t), probe.Request{Source: stranger, Target: own, Token: token})
		if token == testToken {
			testutil.OK(t, err)
		}
		w.upToNow(t)
		_, err = near.Run(testContext(t), back, nil)
		got := w.upToNow(t)
		if token == testToken != (err == nil) || token == testToken != (got.connections > 0) {
			t.Errorf("traced back to a client with token %q: %v, %+v", token, err, got)
		}
	}
	// The watch can fail.
	if _, err := near.Prove(testContext(t), probe.Request{Target: other, Token: "of somebody else"}); err != nil {
		t.Error(err)
	}
	if got := w.upToNow(t); got.connections == 0 || got.payload == 0 || got.others == 0 {
		t.Errorf("the stranger is not watched: %+v", got)
	}
}
