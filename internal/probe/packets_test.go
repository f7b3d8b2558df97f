package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunPackets(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	const on, off = measurement.On, measurement.Off
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP},
		{Kind: measurement.UDP, Direction: measurement.Receive},
		{Kind: measurement.UDP, PacketBytes: 1400, GSO: on, GRO: on},
		{Kind: measurement.UDP, PacketBytes: 1400, GSO: off, GRO: off, Direction: measurement.Receive},
		{Kind: measurement.UDP, PacketBytes: 1400, GSO: on, GRO: off, CopyPayload: true, SendMethod: measurement.SendCopy},
		{Kind: measurement.UDP, PacketBytes: 1400, GSO: on, GRO: off, Flows: 2, Direction: measurement.Receive},
		{Kind: measurement.UDP, PacketBytes: 500, RateBitsPerSecond: 2e7, Flows: 3, Direction: measurement.Receive},
		{Kind: measurement.UDP, PacketBytes: 500, RateBitsPerSecond: 2e7, Flows: 2, DSCP: 46},
		{Kind: measurement.UDP, PacketBytes: dataBytes, RateBitsPerSecond: 1e6},
		{Kind: measurement.PPS},
		{Kind: measurement.PPS, Flows: 2, Direction: measurement.Receive},
	} {
		if runtime.GOOS != "linux" {
			spec.GSO, spec.GRO, spec.DSCP = "", "", 0
		}
		spec.Duration, spec.MaxWarmup = 0.5, 0.05 // a busy host may not run a thread for a while
		spec := spec.Defaults()
		t.Run(fmt.Sprintf("%s %s %d bytes %d flows %s %s", spec.Kind, spec.Direction, spec.PacketBytes, spec.Flows, spec.GSO, spec.GRO), func(t *testing.T) {
			out, err := Run(testContext(t), Request{ID: "t", Spec: spec, Target: target, Token: testToken}, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOutcome(t, out, spec)
		})
	}
}

// checkOutcome holds an outcome of packets against what its own parts say.
func checkOutcome(t *testing.T, out measurement.Outcome, spec measurement.Spec) {
	t.Helper()
	for _, m := range measurement.MetricsOf(spec.Kind) {
		v, ok := out.Metrics[m.Name]
		if host := strings.HasPrefix(m.Name, "cpu_") || m.Name == "context_switches_per_second" || m.Name == "dropped_packets_count"; host && !ok {
			continue // the system or its coarse clock does not say
		}
		if !ok || v < 0 || math.IsNaN(v) || m.Unit == measurement.Fraction && v > 1 {
			t.Errorf("metric %s is %v (present: %v)", m.Name, v, ok)
		}
	}
	if len(out.Flows) != spec.Flows {
		t.Fatalf("%d flows, want %d", len(out.Flows), spec.Flows)
	}
	var received int64
	for _, f := range out.Flows {
		received += f.ReceivedBytes
		if f.SentBytes <= 0 || f.ReceivedBytes > f.SentBytes {
			t.Errorf("received %d of %d sent bytes", f.ReceivedBytes, f.SentBytes)
		}
		for _, a := range []string{f.Source, f.Destination} {
			if _, err := netip.ParseAddrPort(a); err != nil {
				t.Errorf("address of a flow: %v", err)
			}
		}
	}
	if spec.Kind == measurement.UDP {
		want := float64(received) * 8 / float64(spec.Duration)
		if got := out.Metrics["goodput_bits_per_second"]; math.Abs(got-want) > 1e-6*want {
			t.Errorf("goodput %g, want %g", got, want)
		}
	}
	if out.Metrics["reordered_fraction"] != 0 || out.Metrics["duplicated_fraction"] != 0 {
		t.Errorf("loopback reorders %v and duplicates %v", out.Metrics["reordered_fraction"], out.Metrics["duplicated_fraction"])
	}
	// What loopback loses, the receiving socket's buffer lost.
	told := slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "buffer was full") })
	if runtime.GOOS == "linux" && told != (out.Metrics["loss_fraction"] > 0) && !told {
		t.Errorf("loss %v, facts %q", out.Metrics["loss_fraction"], out.Facts)
	}
	if out.Effective["packet_bytes"] == "" || out.Effective["gso"] == "" || out.Effective["gro"] == "" {
		t.Errorf("effective %v", out.Effective)
	}
	if spec.PacketBytes > 0 && out.Effective["packet_bytes"] != fmt.Sprint(spec.PacketBytes) {
		t.Errorf("packets of %s bytes, want %d", out.Effective["packet_bytes"], spec.PacketBytes)
	}
	// A rate that was asked for is a bound, but for the rounding of its bursts.
	if most := spec.RateBitsPerSecond * (1 + forgiveTime.Seconds()/float64(spec.Duration)); most > 0 && out.Metrics["sent_bits_per_second"] > most {
		t.Errorf("sent %g bit/s, asked for %g", out.Metrics["sent_bits_per_second"], spec.RateBitsPerSecond)
	}
}

func TestPacketsOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	target := ln.Addr().(*net.TCPAddr).AddrPort()
	serveOn(t, ln)
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, PacketBytes: 1200, RateBitsPerSecond: 1e7, DSCP: 10},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e8, Direction: measurement.Receive},
		{Kind: measurement.MTU, Timeout: 1},
	} {
		if runtime.GOOS != "linux" {
			spec.DSCP = 0
		}
		if spec.Kind != measurement.MTU {
			spec.Duration, spec.MaxWarmup = 0.3, 0.02
		}
		out, err := Run(testContext(t), Request{Spec: spec, Target: target, Source: netip.MustParseAddr("::1")}, nil)
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		if spec.Kind == measurement.UDP {
			checkOutcome(t, out, spec.Defaults())
		} else if out.Metrics["path_mtu_bytes"] != largestMTU {
			t.Errorf("path MTU %v", out.Metrics["path_mtu_bytes"])
		}
	}
}

func serveOn(t *testing.T, ln net.Listener) {
	t.Helper()
	s, err := NewServer(ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.Go(func() error { return s.Serve(t.Context(), ln) })
	t.Cleanup(func() {
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A server that only TCP reaches ends the test with the reason and the advice.
func TestUDPIsBlackholed(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := serve(t, ServerOptions{})
	p, addr := startProxy(t, target, 1<<60, false) // nobody has its UDP port
	defer p.close()
	for _, kind := range []measurement.Kind{measurement.UDP, measurement.MTU} {
		_, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: kind}, Target: addr}, nil)
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != TimedOut || !strings.Contains(err.Error(), "a firewall may drop UDP to "+addr.String()) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TCP that breaks in the middle of a test ends both ends of it.
func TestBrokenControlEndsPackets(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	ctx := testContext(t)
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		session, err := newSession()
		if err != nil {
			t.Fatal(err)
		}
		spec := measurement.Spec{Kind: measurement.UDP, Duration: 600, Direction: direction, PacketBytes: 500, RateBitsPerSecond: 1e6}.Defaults()
		req := Request{Spec: spec, Target: target, Token: testToken}
		l, err := connect(ctx, req, session, 0)
		if err != nil {
			t.Fatal(err)
		}
		udp, reached, err := reach(ctx, req, l, 0, sockets.DontFragment, func(*sockets.Conn) int { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		if reached.Client != udp.LocalAddr() {
			t.Errorf("the server saw %s, the socket is %s", reached.Client, udp.LocalAddr())
		}
		w := wire{Conn: l.conn, deadline: time.Now().Add(time.Minute)}
		if err := protocol.WriteFrame(&w, protocol.TypeStart, nil); err != nil {
			t.Fatal(err)
		}
		// serve's cleanup fails unless the server's end notices this.
		if err := errors.Join(l.conn.Abort(), udp.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancelPackets(t *testing.T) {
	target := serve(t, ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, Flows: 2},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, Direction: measurement.Receive},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, LossBound: 0.1},
	} {
		spec.Duration = 600
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := Run(ctx, Request{Spec: spec, Target: target}, func(measurement.Progress) { cancel() })
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Cancelled {
			t.Errorf("%v: got %v", spec, err)
		}
		cancel()
	}
}

// The server connects to an address only when its hello has the cookie, comes
// from the client's address, and names a flow that waits.
func TestGreetUDP(t *testing.T) {
	s, err := NewServer(ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddrPort("192.0.2.1:1000")
	test, err := s.enter(nil, protocol.Identity{Session: "x"}, client.Addr(), measurement.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	number, from, forget := s.expectHello(test)
	hello := func(cookie []byte, number uint32) []byte {
		p := make([]byte, datagramBytes)
		putDatagram(p, cookie, datagramHello)
		binary.BigEndian.PutUint32(p[datagramSequence:], number)
		return p
	}
	came := func() bool {
		select {
		case <-from:
			return true
		default:
			return false
		}
	}
	s.greetUDP(hello(make([]byte, protocol.CookieBytes), number), client)
	s.greetUDP(hello(test.cookie[:], number+1), client)
	s.greetUDP(hello(test.cookie[:], number), netip.MustParseAddrPort("192.0.2.2:1000"))
	if came() {
		t.Error("a hello that should not count did")
	}
	s.greetUDP(hello(test.cookie[:], number), client)
	s.greetUDP(hello(test.cookie[:], number), client) // a copy must not block
	if !came() || came() {
		t.Error("the hello did not count once")
	}
	forget()
	s.greetUDP(hello(test.cookie[:], number), client)
	if came() {
		t.Error("a flow that no longer waits was greeted")
	}
}

func FuzzParseFollower(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	packet := make([]byte, 40)
	putFollower(packet, cookie, follower{phase: phaseMeasured, lap: 1408, place: 47, index: 3})
	f.Add(packet, uint64(1<<40))
	f.Add(packet[:dataBytes-1], uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, near uint64) {
		got, ok := parseFollower(b, cookie)
		if !ok {
			return
		}
		again := slices.Clone(b)
		putFollower(again, cookie, got)
		clear(again[dataSequence:followLap]) // which nobody reads
		clear(b[dataSequence:followLap])
		if !bytes.Equal(again, b) {
			t.Fatalf("% x is read as %+v", b, got)
		}
		near &= maxSequence
		if s := got.last(near); !got.at(s) || s > near && s != uint64(got.place) || near >= s && near-s >= uint64(got.lap) {
			t.Fatalf("%+v is at %d, the last before %d", got, s, near)
		}
	})
}

func FuzzParseData(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	packet := make([]byte, 40)
	copy(packet, cookie)
	putData(packet, phaseMeasured, 1<<40+5, -9)
	f.Add(packet)
	f.Add(packet[:dataBytes-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		phase, sequence, at, ok := parseData(b, cookie)
		if !ok {
			return
		}
		again := slices.Clone(b)
		putData(again, phase, sequence, at)
		if !bytes.Equal(again, b) {
			t.Fatalf("% x is read as %d, %d, %d", b, phase, sequence, at)
		}
	})
}

// The server of an mtu test answers its own test alone, and never with more
// than came.
func FuzzProbeAnswer(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	for kind := range byte(8) {
		p := make([]byte, 100)
		putDatagram(p, cookie, kind)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := probeAnswer(b, cookie)
		if n < 0 || n > len(b) || n > 0 && !bytes.HasPrefix(b, cookie) {
			t.Fatalf("%d bytes answer %d", n, len(b))
		}
		if i, ok := answeredProbe(b, cookie, datagramProbe, 5); ok && i < 0 {
			t.Fatalf("probe %d", i)
		}
	})
}

func TestPacer(t *testing.T) {
	for _, c := range []struct {
		rate        float64 // packets of one flow per second
		size, flows int
		burst       float64
	}{{1, 1000, 1, 1}, {1000, 1000, 1, 1}, {40_000, 100, 2, 10}, {1e6, 64, 1, 44}, {0, 64, 1, 0}} {
		spec := measurement.Spec{RateBitsPerSecond: c.rate * 8 * float64(c.size*c.flows), Flows: c.flows}
		p := newPacer(spec, c.size, 44)
		if p.burst != c.burst {
			t.Errorf("%v packets/s: bursts of %v, want %v", c.rate, p.burst, c.burst)
		}
		if c.rate == 0 {
			if n, wait := p.due(0); n != 44 || wait != 0 {
				t.Errorf("unlimited: %d, %v", n, wait)
			}
			continue
		}
		// A sender that always wakes when it asked to keeps the rate.
		sent, now := 0, time.Duration(0)
		for now < 10*time.Second {
			n, wait := p.due(now)
			sent += n
			p.sent += float64(n)
			now += wait + 1
		}
		if want := c.rate * 10; math.Abs(float64(sent)-want) > c.burst+1 {
			t.Errorf("%v packets/s: %d in ten seconds", c.rate, sent)
		}
		// One that sleeps for a second is not forgiven more than it may be.
		n, _ := p.due(now + time.Second)
		if n > 44 || p.perSecond*(now+time.Second).Seconds()-p.sent > p.perSecond*forgiveTime.Seconds()+p.burst+1 {
			t.Errorf("%v packets/s: %d after a stall, %v sent", c.rate, n, p.sent)
		}
	}
}

// Whichever end cannot send as was asked says why to whoever asked.
func TestRefusedSendMethodIsSaid(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "sendfile")
	target := serve(t, ServerOptions{Token: testToken})
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		spec := measurement.Spec{Kind: measurement.UDP, Direction: direction, Duration: 0.3, PacketBytes: 1000, GSO: measurement.Off, SendMethod: measurement.SendZerocopy}.Defaults()
		_, err := Run(testContext(t), Request{Spec: spec, Target: target, Token: testToken}, nil)
		if reasonOf(err) != Unsupported || !strings.Contains(fmt.Sprint(err), "does not cut the packets") {
			t.Errorf("%s: %v (%s)", direction, err, reasonOf(err))
		}
	}
}

func TestPacketsLeaveNoDescriptors(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "/proc/self/fd")
	target := serve(t, ServerOptions{Token: testToken})
	round := func() {
		for _, spec := range []measurement.Spec{
			{Kind: measurement.UDP, Flows: 2, RateBitsPerSecond: 1e7},
			{Kind: measurement.UDP, Flows: 2, PacketBytes: 1400},
			{Kind: measurement.UDP, Direction: measurement.Receive, PacketBytes: 1400},
			{Kind: measurement.PPS, Direction: measurement.Receive, RateBitsPerSecond: 1e6},
			{Kind: measurement.MTU},
		} {
			if spec.Kind != measurement.MTU {
				spec.Duration, spec.MaxWarmup = 0.3, 0.01
			}
			if _, err := Run(testContext(t), Request{Spec: spec, Target: target, Token: testToken}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	before := descriptors(t)
	round()
	// The server closes its ends a little after the client does.
	deadline := time.Now().Add(20 * time.Second)
	for descriptors(t) > before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// A flow leaves from the port and through the interface that were asked for.
func TestPacketsLeaveFromThePort(t *testing.T) {
	target := serve(t, ServerOptions{})
	port := freePorts(t, 1)
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 100, RateBitsPerSecond: 1e6, Duration: 0.3, MaxWarmup: 0.01, SourcePort: port}
	if runtime.GOOS == "linux" {
		spec.Device = "lo"
	}
	out, err := Run(testContext(t), Request{Spec: spec, Target: target}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("127.0.0.1:%d", port); out.Flows[0].Source != want {
		t.Errorf("the flow came from %s, want %s", out.Flows[0].Source, want)
	}
	if runtime.GOOS != "linux" {
		return
	}
	spec.SourcePort, spec.Device = 0, "nosuchdevice"
	if _, err := Run(testContext(t), Request{Spec: spec, Target: target}, nil); err == nil || !strings.Contains(err.Error(), "nosuchdevice") {
		t.Errorf("an interface that is not there: %v", err)
	}
}
