package probe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// TestKilledIPerf3Clients has clients speak a random prefix of a session and
// then close, reset, or hang; a good client is served during and after them.
func TestKilledIPerf3Clients(t *testing.T) {
	var running atomic.Int64
	t.Cleanup(func() {
		// The server has ended by now: every test that began has.
		if n := running.Load(); n != 0 {
			t.Errorf("%d tests never ended", n)
		}
	})
	target := servertest.Serve(t, probe.ServerOptions{MaxTests: 1000, OnTest: func(e probe.TestEvent) {
		if e.Ended {
			running.Add(-1)
		} else {
			running.Add(1)
		}
	}})
	random := rand.New(rand.NewPCG(3, 7))
	var hanging []net.Conn
	defer func() {
		for _, c := range hanging {
			_ = c.Close()
		}
	}()
	for n := range 300 {
		hanging = append(hanging, killedClient(t, target, n, random)...)
	}
	for _, spec := range servertest.IPerf3Specs()[:4] {
		testutil.Longer(t, func(float64) string { // a server that still clears away is slow
			if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil); err != nil {
				return "a good client after the killed ones: " + err.Error()
			}
			return ""
		})
	}
}

// killedClient speaks up to a random byte and returns the connections that it
// leaves open.
func killedClient(t *testing.T, target netip.AddrPort, n int, random *rand.Rand) []net.Conn {
	cookie := fmt.Sprintf("killed%030d\x00", n)
	params := `{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":131072,"client_version":"3.12"}`
	if n%3 == 1 {
		params = strings.Replace(params, `"tcp"`, `"udp"`, 1)
		params = strings.Replace(params, "131072", "1400", 1)
	}
	if n%5 == 4 {
		params = strings.Replace(params, `"omit"`, `"reverse":true,"omit"`, 1)
	}
	message := func(text string) string {
		return string([]byte{0, 0, byte(len(text) >> 8), byte(len(text))}) + text
	}
	results := `{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":0,"streams":[` +
		`{"id":1,"bytes":1,"retransmits":0,"jitter":0,"errors":0,"packets":1},{"id":3,"bytes":1,"retransmits":0,"jitter":0,"errors":0,"packets":1}]}`
	// What the client says, and how many bytes the server says before each part.
	parts := []struct {
		wait int
		say  string
	}{{0, cookie}, {1, message(params)}, {1, "streams"}, {2, "\x04"}, {1, message(results)}, {0, "\x10"}}
	total := 0
	for _, p := range parts {
		total += len(p.say)
	}
	left := random.IntN(total + 1)
	how := random.IntN(3)
	c, err := net.Dial("tcp", target.String())
	testutil.OK(t, err)
	open := []net.Conn{c}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	for _, p := range parts {
		if left == 0 {
			break
		}
		// A UDP client holds back the next one of its address; it need not wait.
		if p.wait > 0 && n%3 != 1 {
			if _, err := io.ReadFull(c, make([]byte, p.wait)); err != nil {
				t.Fatalf("client %d: the server does not answer: %v", n, err)
			}
		}
		if p.say == "streams" {
			open = append(open, killedStreams(t, target, cookie, min(left, 2), n%3 == 1)...)
			left -= min(left, len(p.say))
			continue
		}
		say := p.say[:min(left, len(p.say))]
		left -= len(say)
		if _, err := io.WriteString(c, say); err != nil {
			break // the server had enough of a client that does not wait
		}
	}
	if how == 2 && n%3 != 1 {
		return open // hangs
	}
	for _, c := range open {
		if tcp, ok := c.(*net.TCPConn); ok && how == 1 {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	return nil
}

func killedStreams(t *testing.T, target netip.AddrPort, cookie string, count int, udp bool) []net.Conn {
	var all []net.Conn
	for range count {
		network, hello := "tcp", cookie
		if udp {
			network, hello = "udp", "9876"
		}
		c, err := net.Dial(network, target.String())
		testutil.OK(t, err)
		if _, err := io.WriteString(c, hello); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestIPerf3SendsNoUnaskedUDP sends hellos without a test that waits for them.
func TestIPerf3SendsNoUnaskedUDP(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	// A server that answers over TCP listens on UDP, too.
	control, err := net.Dial("tcp", target.String())
	testutil.OK(t, err)
	defer func() { _ = control.Close() }()
	if _, err := io.WriteString(control, fmt.Sprintf("%036d\x00", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(control, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", target.String())
	testutil.OK(t, err)
	defer func() { _ = c.Close() }()
	for range 10 {
		if _, err := io.WriteString(c, "9876"); err != nil {
			t.Fatal(err)
		}
	}
	testutil.OK(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := c.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes were sent to an address without a test", n)
	}
}

// TestDeadControlEndsStreams closes the control connection of a running test:
// its streams end, although their connections are alive.
func TestDeadControlEndsStreams(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	cookie := fmt.Sprintf("dead%032d\x00", 0)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", target.String())
		testutil.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		testutil.OK(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		if _, err := io.WriteString(c, cookie); err != nil {
			t.Fatal(err)
		}
		return c
	}
	expect := func(c net.Conn, states ...byte) {
		t.Helper()
		got := make([]byte, len(states))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, states) {
			t.Fatalf("states %v, %v, want %v", got, err, states)
		}
	}
	control := dial()
	expect(control, 9)
	params := `{"tcp":true,"time":600,"parallel":1,"reverse":true}`
	if _, err := io.WriteString(control, string([]byte{0, 0, 0, byte(len(params))})+params); err != nil {
		t.Fatal(err)
	}
	expect(control, 10)
	stream := dial()
	expect(control, 1, 2)
	testutil.OK(t, control.Close())
	var err error
	for b := make([]byte, 1<<20); err == nil; {
		_, err = stream.Read(b)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		t.Error("the stream goes on without its control connection")
	}
}
