package udp_test

import (
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

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunPackets(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
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
		{Kind: measurement.UDP, PacketBytes: datagram.DataBytes, RateBitsPerSecond: 1e6},
		{Kind: measurement.PPS},
		{Kind: measurement.PPS, Flows: 2, Direction: measurement.Receive},
	} {
		if runtime.GOOS != "linux" {
			spec.GSO, spec.GRO, spec.DSCP = "", "", 0
		}
		spec.Duration, spec.MaxWarmup = 0.5, 0.05 // a busy host may not run a thread for a while
		spec := spec.Defaults()
		t.Run(fmt.Sprintf("%s %s %d bytes %d flows %s %s", spec.Kind, spec.Direction, spec.PacketBytes, spec.Flows, spec.GSO, spec.GRO), func(t *testing.T) {
			out, err := probe.Run(servertest.Context(t), probe.Request{ID: "t", Spec: spec, Target: target, Token: servertest.Token}, nil)
			testutil.OK(t, err)
			checkOutcome(t, out, spec)
		})
	}
}

// A server that reads START late sends for the whole measured time all the same.
func TestLateStart(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	testutil.Longer(t, func(factor float64) string {
		spec := measurement.Spec{
			Kind: measurement.UDP, Direction: measurement.Receive, MaxWarmup: 0.02,
			Duration: measurement.Seconds(0.2 * factor), RateBitsPerSecond: 2e6, PacketBytes: 500,
		}
		late := spec.Duration.Duration() * 3 / 4
		path := servertest.Path{Hold: func(sent []byte) time.Duration {
			if h, err := protocol.ParseHeader(sent); err == nil && h.Type == protocol.TypeStart {
				return late
			}
			return 0
		}}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: path.Listen(t, target)}, nil)
		testutil.OK(t, err)
		if sent := out.Metrics["sent_bits_per_second"]; sent < spec.RateBitsPerSecond*9/10 {
			return fmt.Sprintf("of %v bit/s it sent %v: %q", spec.RateBitsPerSecond, sent, out.Facts)
		}
		return ""
	})
}

// checkOutcome compares an outcome of packets with what its own parts say.
func checkOutcome(t *testing.T, out measurement.Outcome, spec measurement.Spec) {
	t.Helper()
	for _, m := range measurement.MetricsOf(spec.Kind) {
		v, ok := out.Metrics[m.Name]
		if host := strings.HasPrefix(m.Name, "cpu_") || m.Name == "context_switches_per_second" || m.Name == "dropped_packets_count"; host && !ok {
			continue // the system or its coarse clock does not say
		}
		if _, known := out.Metrics["one_way_delay_bound_seconds"]; strings.HasPrefix(m.Name, "one_way_delay_") && !known && !ok {
			continue // all or none: loopback takes little longer than clocks are read
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
		// Where a busy host's queues grew, they took longer, and it says so.
		queued := slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "a queue on the path grew") })
		if got := out.Metrics["goodput_bits_per_second"]; math.Abs(got-want) > 1e-6*want && !(queued && got < want) {
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
	if mark := out.Effective["dscp"]; spec.DSCP > 0 && mark != fmt.Sprint(spec.DSCP) || spec.DSCP == 0 && mark != "" {
		t.Errorf("packets are marked %q, want %d at both ends", mark, spec.DSCP)
	}
	if spec.PacketBytes > 0 && out.Effective["packet_bytes"] != fmt.Sprint(spec.PacketBytes) {
		t.Errorf("packets of %s bytes, want %d", out.Effective["packet_bytes"], spec.PacketBytes)
	}
	// A rate that was asked for is a bound, but for 10 ms of it that are made up for at once,
	// and 4 % more after what a busy host missed.
	if most := spec.RateBitsPerSecond * (1.04 + 0.01/float64(spec.Duration)); most > 0 && out.Metrics["sent_bits_per_second"] > most {
		t.Errorf("sent %g bit/s, asked for %g", out.Metrics["sent_bits_per_second"], spec.RateBitsPerSecond)
	}
}

func TestPacketsOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	target := servertest.ServeListener(t, probe.ServerOptions{}, ln)
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
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Source: netip.MustParseAddr("::1")}, nil)
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		if spec.Kind == measurement.UDP {
			checkOutcome(t, out, spec.Defaults())
		} else if out.Metrics["path_mtu_bytes"] != 65535 {
			t.Errorf("path MTU %v", out.Metrics["path_mtu_bytes"])
		}
	}
}

// A server that only TCP reaches ends the test with the reason and the advice.
func TestUDPIsBlackholed(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	p, addr := servertest.StartProxy(t, target, 1<<60, false) // nobody has its UDP port
	defer p.Close()
	for _, kind := range []measurement.Kind{measurement.UDP, measurement.MTU} {
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: kind}, Target: addr}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut || !strings.Contains(err.Error(), "a firewall may drop UDP to "+addr.String()) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TCP that breaks in the middle of a test ends both ends of it.
func TestBrokenControlEndsPackets(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	ctx := servertest.Context(t)
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		spec := measurement.Spec{Kind: measurement.UDP, Duration: 600, Direction: direction, PacketBytes: 500, RateBitsPerSecond: 1e6}.Defaults()
		req := probe.Request{Spec: spec, Target: target, Token: servertest.Token}
		l, err := session.ConnectSingle(ctx, req)
		testutil.OK(t, err)
		udp, reached, err := datagram.Open(ctx, req, l, 0, sockets.DontFragment, 0)
		testutil.OK(t, err)
		if reached.Client != udp.LocalAddr() {
			t.Errorf("the server saw %s, the socket is %s", reached.Client, udp.LocalAddr())
		}
		w := session.ControlConn{Conn: l.Conn, Deadline: time.Now().Add(time.Minute)}
		testutil.OK(t, protocol.WriteFrame(&w, protocol.TypeStart, nil))
		// serve's cleanup fails unless the server's end notices this.
		testutil.OK(t, errors.Join(l.Conn.Abort(), udp.Close()))
	}
}

func TestCancelPackets(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, Flows: 2},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, Direction: measurement.Receive},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e7, LossBound: 0.1},
	} {
		servertest.CancelMidway(t, target, spec)
	}
}

func TestPacketsLeaveNoDescriptors(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "/proc/self/fd")
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
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
			if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	before := servertest.Descriptors(t)
	round()
	servertest.AwaitDescriptors(t, before)
}

// A flow leaves from the port and through the interface that were asked for.
func TestPacketsLeaveFromThePort(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	port := servertest.FreePorts(t, 1)
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 100, RateBitsPerSecond: 1e6, Duration: 0.3, MaxWarmup: 0.01, SourcePort: port}
	if runtime.GOOS == "linux" {
		spec.Device = "lo"
	}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
	testutil.OK(t, err)
	if want := fmt.Sprintf("127.0.0.1:%d", port); out.Flows[0].Source != want {
		t.Errorf("the flow came from %s, want %s", out.Flows[0].Source, want)
	}
	if runtime.GOOS != "linux" {
		return
	}
	spec.SourcePort, spec.Device = 0, "nosuchdevice"
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil); err == nil || !strings.Contains(err.Error(), "nosuchdevice") {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// Packets are sent without a copy in full buffers, which keeps to no rate: where an end bounds
// the rate, whoever asked for that is told so.
func TestZerocopyOfABoundedRate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("only Linux sends packets without a copy; this is %s", runtime.GOOS)
	}
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 20e6}})
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		spec := measurement.Spec{Kind: measurement.UDP, Direction: direction, PacketBytes: 1000, SendMethod: measurement.SendZerocopy, Duration: 0.3, MaxWarmup: 0.05}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Unsupported || !strings.Contains(err.Error(), "--max-rate") {
			t.Errorf("%s: %v; %v bit/s sent, %q", direction, err, out.Metrics["sent_bits_per_second"], out.Facts)
		}
	}
}
