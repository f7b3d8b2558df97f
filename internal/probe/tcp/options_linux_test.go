package tcp_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every option reaches the sockets of the right end, and the outcome says what
// they answered.
func TestOptionsTakeEffect(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	port := servertest.FreePorts(t, 4)
	type row struct {
		name string
		spec measurement.Spec
		want map[string]string // of Effective
	}
	rows := []row{
		{"congestion control", measurement.Spec{CongestionControl: "reno"}, map[string]string{"congestion_control": "reno"}},
		{"MSS", measurement.Spec{MSSBytes: 1012, PacingBitsPerSecond: 80e6}, map[string]string{"mss_bytes": "1000"}}, // time stamps take 12
		{"buffers", measurement.Spec{SendBufferBytes: 100_000, ReceiveBufferBytes: 90_000, PacingBitsPerSecond: 80e6},
			map[string]string{"send_buffer_bytes": "200000", "receive_buffer_bytes": "180000"}},
		{"DSCP", measurement.Spec{DSCP: 46, PacingBitsPerSecond: 80e6}, map[string]string{"dscp": "46"}},
		{"zerocopy", measurement.Spec{SendMethod: measurement.SendZerocopy}, map[string]string{"send_method": measurement.SentSplice}},
		{"the faster way", measurement.Spec{CongestionControl: "reno"}, map[string]string{"send_method": measurement.SentSplice, "send_page_bytes": pageBytes(t)}},
		{"the faster way when paced", measurement.Spec{CongestionControl: "reno", PacingBitsPerSecond: 80e6}, map[string]string{"send_method": measurement.SentSplice}},
		{"the faster way with MPTCP", measurement.Spec{CongestionControl: "reno", MPTCP: true}, map[string]string{"send_method": measurement.SentCopy}},
		{"copy", measurement.Spec{SendMethod: measurement.SendCopy, CopyPayload: true},
			map[string]string{"send_method": measurement.SentCopy, "receive_method": measurement.ReceivedCopy}},
		{"no batches", measurement.Spec{CongestionControl: "reno"}, map[string]string{"receive_low_water_bytes": "", "unsent_low_water_bytes": ""}},
		{"pacing", measurement.Spec{PacingBitsPerSecond: 80e6}, nil},
		{"device", measurement.Spec{Device: "lo", PacingBitsPerSecond: 80e6}, nil},
		{"source ports", measurement.Spec{SourcePort: port, Flows: 2, PacingBitsPerSecond: 80e6}, nil},
	}
	available, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	testutil.OK(t, err)
	if os.Geteuid() == 0 && slices.Contains(strings.Fields(string(available)), "bbr") { // others may be refused it
		rows = append(rows,
			row{"batches of a paced flow", measurement.Spec{CongestionControl: "bbr"}, map[string]string{"receive_low_water_bytes": "262144", "unsent_low_water_bytes": "131072"}},
			row{"no batches with a window", measurement.Spec{CongestionControl: "bbr", WindowBytes: 100_000}, map[string]string{"receive_low_water_bytes": ""}})
	}
	for _, c := range rows {
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive, measurement.Both} {
			t.Run(c.name+" "+string(direction), func(t *testing.T) {
				spec := c.spec
				spec.Kind, spec.Direction, spec.Duration, spec.MaxWarmup = measurement.TCP, direction, 0.1, 0.05
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
				testutil.OK(t, err)
				for k, v := range c.want {
					if out.Effective[k] != v {
						t.Errorf("effective %s is %q, want %q: %v", k, out.Effective[k], v, out.Effective)
					}
				}
				for i, f := range out.Flows {
					if f.Final == nil || f.Final.SentBytes <= 0 {
						t.Fatalf("flow %d has no TCP_INFO", i)
					}
					if want := spec.PacingBitsPerSecond; want > 0 && f.Final.PacingRate > want {
						t.Errorf("flow %d is paced to %g bit/s, want at most %g", i, f.Final.PacingRate, want)
					}
					if end := strconv.Itoa(spec.SourcePort + i); spec.SourcePort > 0 && !strings.HasSuffix(f.Source, ":"+end) {
						t.Errorf("flow %d comes from %s, want port %s", i, f.Source, end)
					}
				}
				if len(out.Facts) > 0 && !strings.Contains(strings.Join(out.Facts, ""), "not steady") {
					t.Errorf("facts: %q", out.Facts)
				}
			})
		}
	}
}

// pageBytes is what is behind a reference of a piped payload, which is the same for
// the next one as long as the kernel has compound pages.
func pageBytes(t *testing.T) string {
	p, err := sockets.NewPipedPayload()
	testutil.OK(t, err)
	defer p.Close()
	return strconv.Itoa(p.PageBytes())
}

// A route's congestion control does not replace, on connecting, the one that
// was asked for.
func TestCongestionControlBeatsTheRoute(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, congestionBeatsRoute)
}

func congestionBeatsRoute(t *testing.T) {
	testutil.OK(t, testutil.LoopbackUp())
	path, err := exec.LookPath("ip")
	testutil.Need(t, err == nil, "ip of iproute2")
	out, err := exec.Command(path, "route", "replace", "local", "127.0.0.1", "dev", "lo", "table", "local", "congctl", "cubic").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	target := servertest.Serve(t, probe.ServerOptions{})
	for asked, want := range map[string]string{"": "cubic", "reno": "reno"} {
		spec := measurement.Spec{Kind: measurement.TCP, Duration: 0.1, MaxWarmup: 0.05, CongestionControl: asked}
		got, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		testutil.OK(t, err)
		if cc := got.Effective["congestion_control"]; cc != want {
			t.Errorf("asked %q: %q, want %q", asked, cc, want)
		}
	}
}

// What the kernel did otherwise is told.
func TestOptionsThatAreNotObeyed(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, c := range []struct {
		spec measurement.Spec
		fact string
	}{
		{measurement.Spec{SendBufferBytes: 1 << 30}, "the send buffer is"},
		{measurement.Spec{ReceiveBufferBytes: 1 << 30}, "the receive buffer is"},
	} {
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
			c.spec.Kind, c.spec.Direction, c.spec.Duration, c.spec.MaxWarmup = measurement.TCP, direction, 0.05, 0.01
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: c.spec, Target: target}, nil)
			testutil.OK(t, err)
			if !strings.Contains(strings.Join(out.Facts, "\n"), c.fact) {
				t.Errorf("%s: no fact says %q: %q", direction, c.fact, out.Facts)
			}
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer taken.Close()
	for _, c := range []struct {
		name, says string
		spec       measurement.Spec
		reason     probe.Reason
	}{
		{"port", "is taken", measurement.Spec{SourcePort: taken.Addr().(*net.TCPAddr).Port}, probe.Local},
		{"device", "nosuchdevice", measurement.Spec{Device: "nosuchdevice"}, probe.Unsupported},
		{"congestion control", "nonesuch", measurement.Spec{CongestionControl: "nonesuch"}, probe.Unsupported},
	} {
		c.spec.Kind, c.spec.Duration, c.spec.MaxWarmup = measurement.TCP, 0.05, 0.01
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: c.spec, Target: target, Source: netip.MustParseAddr("127.0.0.1")}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != c.reason || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want reason %s and %q", c.name, err, c.reason, c.says)
		}
	}
}

// The marks and options of IPv6 are its own.
func TestOptionsOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	target := servertest.ServeListener(t, probe.ServerOptions{}, ln)
	for _, spec := range []measurement.Spec{
		{Direction: measurement.Both, DSCP: 10, SourcePort: servertest.FreePorts(t, 2)},
		{Direction: measurement.Send, Flows: 70, DSCP: 10},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.TCP, 0.1, 0.05
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Source: netip.MustParseAddr("::1")}, nil)
		testutil.OK(t, err)
		if out.Effective["dscp"] != "10" || len(out.Flows) != kind.Connections(spec.Defaults()) {
			t.Errorf("%d flows, effective %v", len(out.Flows), out.Effective)
		}
	}
}

// A connection says whether it is MPTCP, and a server that has not got it is a fact.
func TestMultipath(t *testing.T) {
	enabled, err := os.ReadFile("/proc/sys/net/mptcp/enabled")
	testutil.Need(t, err == nil && strings.TrimSpace(string(enabled)) == "1", "a kernel with MPTCP (net.mptcp.enabled)")
	for _, there := range []bool{true, false} {
		var config net.ListenConfig
		config.SetMultipathTCP(there)
		ln, err := config.Listen(servertest.Context(t), "tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		target := servertest.ServeListener(t, probe.ServerOptions{}, ln)
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
			out, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: measurement.Spec{
				Kind: measurement.TCP, MPTCP: true, Direction: direction, Duration: 0.1, MaxWarmup: 0.05,
			}}, nil)
			testutil.OK(t, err)
			want := map[bool]string{true: "mptcp", false: "tcp"}[there]
			told := strings.Contains(strings.Join(out.Facts, "\n"), "plain TCP was used")
			if out.Effective["transport"] != want || told == there {
				t.Errorf("%s, MPTCP at the server %v: effective %v, facts %q", direction, there, out.Effective, out.Facts)
			}
		}
	}
}
