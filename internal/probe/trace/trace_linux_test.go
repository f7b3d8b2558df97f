package trace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// server listens for TCP at the destination and counts what it accepts.
type server struct {
	addr     netip.AddrPort
	listener net.Listener
	accepted chan int // the total, when the listener is closed
}

func serve(t *testing.T, c *chaintest.Chain, v6 bool) *server {
	t.Helper()
	s := &server{accepted: make(chan int, 1)}
	var err error
	c.Destination().Do(t, func() {
		config := net.ListenConfig{}
		config.SetMultipathTCP(false)
		s.listener, err = config.Listen(context.Background(), "tcp", netip.AddrPortFrom(c.Target(v6), 0).String())
	})
	testutil.OK(t, err)
	s.addr = s.listener.Addr().(*net.TCPAddr).AddrPort()
	go func() {
		n := 0
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				s.accepted <- n
				return
			}
			n++
			_ = conn.Close() // it was reset already
		}
	}()
	t.Cleanup(func() { _ = s.listener.Close() })
	return s
}

type mode struct {
	name       string
	privileged bool
	protocol   measurement.Protocol
	socket     string
}

var modes = []mode{
	{"tcp raw", true, measurement.OverTCP, "raw"},
	{"udp raw", true, measurement.OverUDP, "raw"},
	{"icmp raw", true, measurement.OverICMP, "raw"},
	{"tcp unprivileged", false, measurement.OverTCP, "error queue"},
	{"udp unprivileged", false, measurement.OverUDP, "error queue"},
	{"icmp datagram", false, measurement.OverICMP, "datagram"},
}

func everyWay(t *testing.T, f func(t *testing.T, m mode, v6 bool)) {
	for _, m := range modes {
		for _, v6 := range []bool{false, true} {
			family := "IPv4"
			if v6 {
				family = "IPv6"
			}
			t.Run(m.name+" "+family, func(t *testing.T) { f(t, m, v6) })
		}
	}
}

func (m mode) run(t *testing.T, c *chaintest.Chain, target netip.AddrPort, timeout time.Duration) measurement.Outcome {
	t.Helper()
	var o measurement.Outcome
	var err error
	do := c.Source().Do
	if !m.privileged {
		do = c.Source().DoUnprivileged
	}
	do(t, func() {
		spec := measurement.Spec{Protocol: m.protocol, Timeout: measurement.SecondsOf(timeout)}
		o, err = Run(context.Background(), Request{Spec: spec, Target: target}, nil)
	})
	testutil.OK(t, err)
	return o
}

func addresses(hops []measurement.TraceHop) []string {
	var out []string
	for _, h := range hops {
		if h.Address == "" {
			out = append(out, "*")
			continue
		}
		out = append(out, h.Address)
	}
	return out
}

func wanted(c *chaintest.Chain, v6 bool, silent ...int) []string {
	var out []string
	for i := 1; i < len(c.Nodes); i++ {
		if slices.Contains(silent, i) {
			out = append(out, "*")
			continue
		}
		out = append(out, c.Hop(i, v6).String())
	}
	return out
}

func newChain(t *testing.T, routers int) *chaintest.Chain {
	t.Helper()
	c := chaintest.New(t, routers)
	c.Source().Sysctl(t, "net.ipv4.ping_group_range", "0 0")
	return c
}

func TestEveryHop(t *testing.T) {
	c := newChain(t, 3)
	servers := map[bool]*server{false: serve(t, c, false), true: serve(t, c, true)}
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		o := m.run(t, c, servers[v6].addr, time.Second)
		if got, want := addresses(o.Hops), wanted(c, v6); !slices.Equal(got, want) {
			t.Fatalf("hops %v, want %v; facts %q", got, want, o.Facts)
		}
		for i, h := range o.Hops {
			if h.TTL != i+1 || h.RTT <= 0 || h.Reached != (i == 3) {
				t.Errorf("hop %+v", h)
			}
		}
		if o.Metrics["hops_count"] != 4 || o.Metrics["silent_hops_count"] != 0 {
			t.Errorf("metrics %v", o.Metrics)
		}
		if o.Effective["trace_socket"] != m.socket || o.Effective["trace_protocol"] != string(m.protocol) {
			t.Errorf("effective %v", o.Effective)
		}
		if m.name == "tcp raw" {
			if o.Effective["trace_synack_mss_bytes"] == "" {
				t.Errorf("no MSS in %v", o.Effective)
			}
			if len(o.Facts) > 0 {
				t.Errorf("facts %q", o.Facts)
			}
		}
	})
}

func TestClosedPortIsReached(t *testing.T) {
	c := newChain(t, 1)
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		o := m.run(t, c, netip.AddrPortFrom(c.Target(v6), 9), time.Second)
		if got, want := addresses(o.Hops), wanted(c, v6); !slices.Equal(got, want) || !o.Hops[1].Reached {
			t.Errorf("hops %v, want %v; facts %q", got, want, o.Facts)
		}
	})
}

func TestOwnHost(t *testing.T) {
	c := newChain(t, 0)
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		own := netip.MustParseAddr("127.0.0.1")
		if v6 {
			own = netip.MustParseAddr("::1")
		}
		o := m.run(t, c, netip.AddrPortFrom(own, 9), time.Second)
		if len(o.Hops) != 1 || !o.Hops[0].Reached || o.Hops[0].Address != own.String() {
			t.Errorf("hops %+v; facts %q", o.Hops, o.Facts)
		}
	})
}

func TestSilentHop(t *testing.T) {
	c := newChain(t, 3)
	c.Router(2).Silence(t)
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		o := m.run(t, c, netip.AddrPortFrom(c.Target(v6), 9), time.Second)
		if got, want := addresses(o.Hops), wanted(c, v6, 2); !slices.Equal(got, want) {
			t.Fatalf("hops %v, want %v; facts %q", got, want, o.Facts)
		}
		if o.Hops[1].RTT != 0 || o.Metrics["silent_hops_count"] != 1 || o.Metrics["hops_count"] != 4 {
			t.Errorf("hops %+v, metrics %v", o.Hops, o.Metrics)
		}
	})
}

// Behind a router that swallows everything all hops are silent.
func TestSilentPath(t *testing.T) {
	c := newChain(t, 2)
	targets := map[bool]netip.Addr{false: netip.MustParseAddr("203.0.113.1"), true: netip.MustParseAddr("2001:db8::1")}
	for _, target := range targets {
		c.Router(2).AddRoute(t, netip.PrefixFrom(target, target.BitLen()), netip.Addr{}, unix.RTN_BLACKHOLE)
	}
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		t.Parallel()
		o := m.run(t, c, netip.AddrPortFrom(targets[v6], 80), 300*time.Millisecond)
		if len(o.Hops) != 30 || o.Hops[0].Address != c.Hop(1, v6).String() || o.Metrics["hops_count"] != 1 {
			t.Fatalf("hops %v, metrics %v", addresses(o.Hops), o.Metrics)
		}
		if !slices.ContainsFunc(o.Facts, func(f string) bool { return strings.Contains(f, "the destination did not answer") }) {
			t.Errorf("facts %q", o.Facts)
		}
	})
}

// Linux sends a burst of five such errors to an address and then one a second
// (net/ipv4/route.c ip_error), so every way gets a chain of its own.
func TestRejectedPath(t *testing.T) {
	everyWay(t, func(t *testing.T, m mode, v6 bool) {
		c := newChain(t, 2)
		target, bits, says := netip.MustParseAddr("203.0.113.1"), 32, "host unreachable"
		if v6 {
			target, bits, says = netip.MustParseAddr("2001:db8::1"), 128, "no route"
		}
		c.Router(2).AddRoute(t, netip.PrefixFrom(target, bits), netip.Addr{}, unix.RTN_UNREACHABLE)
		o := m.run(t, c, netip.AddrPortFrom(target, 80), time.Second)
		if got, want := addresses(o.Hops), []string{c.Hop(1, v6).String(), c.Hop(2, v6).String()}; !slices.Equal(got, want) || o.Hops[1].Reached {
			t.Fatalf("hops %+v, want %v", o.Hops, want)
		}
		for _, part := range []string{says, "not reached"} {
			if !slices.ContainsFunc(o.Facts, func(f string) bool { return strings.Contains(f, part) }) {
				t.Errorf("no %q in facts %q", part, o.Facts)
			}
		}
	})
}

// A trace over TCP leaves no connection behind, half-open or open, and in raw
// mode the listener accepts none.
func TestHarmlessToServer(t *testing.T) {
	c := newChain(t, 2)
	for _, m := range modes {
		if m.protocol != measurement.OverTCP {
			continue
		}
		for _, v6 := range []bool{false, true} {
			s := serve(t, c, v6)
			o := m.run(t, c, s.addr, time.Second)
			if !o.Hops[len(o.Hops)-1].Reached {
				t.Fatalf("%s: %v", m.name, addresses(o.Hops))
			}
			deadline := time.Now().Add(5 * time.Second)
			for {
				left := connections(t, c.Destination(), s.addr.Port())
				if len(left) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s left connections behind:\n%s", m.name, strings.Join(left, "\n"))
				}
				time.Sleep(10 * time.Millisecond) // between two looks
			}
			if err := s.listener.Close(); err != nil {
				t.Error(err)
			}
			if n := <-s.accepted; m.privileged && n != 0 {
				t.Errorf("%s: the listener accepted %d connections", m.name, n)
			}
		}
	}
}

// connections lists what the node has of a port, but for its listener.
func connections(t *testing.T, n *chaintest.Node, port uint16) []string {
	t.Helper()
	var out []string
	n.Do(t, func() {
		for _, name := range []string{"tcp", "tcp6"} {
			// The thread's own view: /proc/net is that of the main thread.
			b, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				t.Error(err)
				return
			}
			for line := range strings.Lines(string(b)) {
				fields := strings.Fields(line)
				const listening = "0A" // net/tcp_states.h
				if len(fields) > 3 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) && fields[3] != listening {
					out = append(out, line)
				}
			}
		}
	})
	return out
}

// The hops are those that the tools people know print.
func TestAgainstTraceroute(t *testing.T) {
	c := newChain(t, 3)
	c.Router(2).Silence(t)
	line := regexp.MustCompile(`(?m)^ *(\d+) +(\S+)`)
	for _, tc := range []struct {
		protocol measurement.Protocol
		v6       bool
		tool     []string
	}{
		{measurement.OverUDP, false, []string{"traceroute", "-n", "-q", "1", "-w", "0.3"}},
		{measurement.OverUDP, true, []string{"traceroute", "-6", "-n", "-q", "1", "-w", "0.3"}},
		{measurement.OverICMP, false, []string{"traceroute", "-I", "-n", "-q", "1", "-w", "0.3"}},
		{measurement.OverTCP, false, []string{"traceroute", "-T", "-p", "9", "-n", "-q", "1", "-w", "0.3"}},
		{measurement.OverTCP, true, []string{"traceroute", "-6", "-T", "-p", "9", "-n", "-q", "1", "-w", "0.3"}},
		{measurement.OverTCP, false, []string{"tcptraceroute", "-n", "-q", "1", "-w", "1"}},
	} {
		name := fmt.Sprintf("%s %s IPv6=%v", tc.tool[0], tc.protocol, tc.v6)
		t.Run(name, func(t *testing.T) {
			target := c.Target(tc.v6)
			args := append(slices.Clone(tc.tool[1:]), target.String())
			if tc.tool[0] == "tcptraceroute" {
				args = append(args, "9")
			}
			out, err := c.Source().Output(t, tc.tool[0], args...)
			if err != nil {
				t.Fatalf("%v: %v\n%s", tc.tool, err, out)
			}
			var theirs []string
			for _, m := range line.FindAllStringSubmatch(out, -1) {
				theirs = append(theirs, m[2])
			}
			o := mode{privileged: true, protocol: tc.protocol}.run(t, c, netip.AddrPortFrom(target, 9), time.Second)
			if ours := addresses(o.Hops); !slices.Equal(ours, theirs) {
				t.Errorf("ours %v, theirs %v\n%s", ours, theirs, out)
			}
		})
	}
}

func TestNoRoute(t *testing.T) {
	c := newChain(t, 1)
	nowhere := netip.MustParseAddr("203.0.113.9")
	c.Source().AddRoute(t, netip.PrefixFrom(nowhere, 32), netip.Addr{}, unix.RTN_UNREACHABLE)
	for _, m := range modes {
		do := c.Source().Do
		if !m.privileged {
			do = c.Source().DoUnprivileged
		}
		var err error
		do(t, func() {
			_, err = Run(context.Background(), Request{Spec: measurement.Spec{Protocol: m.protocol}, Target: netip.AddrPortFrom(nowhere, 80)}, nil)
		})
		if !errors.Is(err, unix.EHOSTUNREACH) || !strings.Contains(err.Error(), nowhere.String()) {
			t.Errorf("%s: error %v, want EHOSTUNREACH of %v", m.name, err, nowhere)
		}
	}
}

func TestNotAllowed(t *testing.T) {
	c := chaintest.New(t, 0)
	var err error
	c.Source().DoUnprivileged(t, func() {
		spec := measurement.Spec{Protocol: measurement.OverICMP}
		_, err = Run(context.Background(), Request{Spec: spec, Target: netip.AddrPortFrom(c.Target(false), 0)}, nil)
	})
	for _, part := range []string{"ping_group_range", "tcp or udp probes"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

func TestCancel(t *testing.T) {
	c := newChain(t, 1)
	target := netip.MustParseAddr("203.0.113.1")
	c.Router(1).AddRoute(t, netip.PrefixFrom(target, 32), netip.Addr{}, unix.RTN_BLACKHOLE)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var o measurement.Outcome
	var err error
	c.Source().Do(t, func() {
		o, err = Run(ctx, Request{Spec: measurement.Spec{Timeout: 60}, Target: netip.AddrPortFrom(target, 80)}, nil)
	})
	if !errors.Is(err, context.DeadlineExceeded) || len(o.Hops) == 0 {
		t.Errorf("error %v, hops %v", err, addresses(o.Hops))
	}
}

// fits tells whether hops are those of a branch. One may be silent: before
// Linux 6.12 all namespaces share one limit on ICMP messages.
func fits(hops []measurement.TraceHop, branch []netip.Addr) bool {
	silent := 0
	for i, h := range hops {
		switch {
		case i >= len(branch):
			return false
		case h.Address == "":
			silent++
		case h.Address != branch[i].String():
			return false
		}
	}
	return len(hops) == len(branch) && silent <= 1
}

// A router that balances by ports sends all probes of a raw trace the same
// way: the hops are those of one branch, never of both.
func TestBalancedPathIsNotMixed(t *testing.T) {
	f := chaintest.NewFork(t)
	for _, protocol := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP, measurement.OverICMP} {
		seen := map[int]int{}
		for range 40 {
			var o measurement.Outcome
			var err error
			f.Source.Do(t, func() {
				o, err = Run(context.Background(), Request{Spec: measurement.Spec{Protocol: protocol}, Target: netip.AddrPortFrom(f.Target, 9)}, nil)
			})
			testutil.OK(t, err)
			branch := -1
			for i, hops := range f.Branches {
				if fits(o.Hops, hops) {
					branch = i
				}
			}
			if branch < 0 {
				t.Fatalf("%s: hops %v are of no branch", protocol, addresses(o.Hops))
			}
			seen[branch]++
		}
		t.Logf("%s: branches taken: %v", protocol, seen)
		// Ports differ from trace to trace, so TCP and UDP take both branches
		// but once in 2^39 times; ICMP has no ports to balance by.
		if protocol != measurement.OverICMP && len(seen) != 2 {
			t.Errorf("%s: all traces took one branch: the router does not balance", protocol)
		}
	}
}
