package pathtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// nodeEnv makes this test binary an end of a test in a node of the chain: with
// an address a server there, with a request a client.
const nodeEnv = "HOPBENCH_TEST_NODE"

func TestMain(m *testing.M) {
	if job := os.Getenv(nodeEnv); job != "" {
		if err := node(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testutil.Enter()
	goleak.VerifyTestMain(m)
}

func node(job string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if address, err := netip.ParseAddrPort(job); err == nil {
		return serve(ctx, address)
	}
	var req probe.Request
	if err := json.Unmarshal([]byte(job), &req); err != nil {
		return err
	}
	out, err := probe.Run(ctx, req, nil)
	result := answer{Outcome: out}
	if e, ok := errors.AsType[*probe.Error](err); ok {
		result.Reason, result.Error = e.Reason, err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

type answer struct {
	measurement.Outcome
	Reason probe.Reason `json:"reason"`
	Error  string       `json:"error"`
}

func serve(ctx context.Context, address netip.AddrPort) error {
	s, err := probe.NewServer(probe.ServerOptions{Open: true})
	if err != nil {
		return err
	}
	tcp, err := probe.ListenTCP(ctx, address.String())
	if err != nil {
		return err
	}
	l, err := s.Bind(tcp)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return l.Serve(ctx)
}

// path is a chain with a server at its end.
type path struct {
	*chaintest.Chain
	targets [2]netip.AddrPort // IPv4, IPv6
}

func newPath(t *testing.T, routers int) *path {
	t.Helper()
	p := &path{Chain: chaintest.New(t, routers)}
	for i, v6 := range []bool{false, true} {
		p.targets[i] = serveIn(t, func(f func()) { p.Destination().Do(t, f) }, netip.AddrPortFrom(p.Target(v6), 0))
	}
	return p
}

// serveIn runs a server in the namespaces that do enters, until the test ends.
func serveIn(t *testing.T, do func(func()), address netip.AddrPort) netip.AddrPort {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), nodeEnv+"="+address.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testutil.OK(t, err)
	do(func() { err = cmd.Start() })
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	testutil.OK(t, err)
	return netip.MustParseAddrPort(strings.TrimSpace(line))
}

// run does a test from the source.
func (p *path) run(t *testing.T, spec measurement.Spec, v6 bool) answer {
	t.Helper()
	req := probe.Request{ID: "path", Spec: spec, Target: p.targets[0]}
	if v6 {
		req.Target = p.targets[1]
	}
	return runIn(t, func(f func()) { p.Source().Do(t, f) }, req)
}

// runIn does a test in the namespaces that do enters, by a program that runs what follows
// it, if one is given.
func runIn(t *testing.T, do func(func()), req probe.Request, program ...string) answer {
	t.Helper()
	job, err := json.Marshal(req)
	testutil.OK(t, err)
	self, err := os.Executable()
	testutil.OK(t, err)
	program = append(program, self)
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(job))
	cmd.Stderr = os.Stderr
	var text []byte
	do(func() { text, err = cmd.Output() })
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("client said %q: %v", text, err)
	}
	return a
}

// filter gives the first router an nftables rule at a hook: forward, or output
// for what it sends itself. A new rule replaces the last.
func (p *path) filter(t *testing.T, hook, rule string) {
	t.Helper()
	p.filterAt(t, 1, hook, rule)
}

// filterAt is filter for any of the routers, from 1.
func (p *path) filterAt(t *testing.T, router int, hook, rule string) {
	t.Helper()
	script := "flush ruleset; add table inet t; add chain inet t c { type filter hook " + hook + " priority 0; }; add rule inet t c " + rule
	out, err := p.Router(router).Output(t, "nft", script)
	testutil.Need(t, err == nil, "nftables in a network namespace: "+out)
}

func families(t *testing.T, f func(t *testing.T, v6 bool)) {
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) { f(t, v6) })
	}
}

func TestPathMTU(t *testing.T) {
	p := newPath(t, 2)
	spec := measurement.Spec{Kind: measurement.MTU, Timeout: 0.5}
	expect := func(t *testing.T, v6 bool, there, back float64, fact string) {
		t.Helper()
		a := p.run(t, spec, v6)
		if a.Error != "" || a.Metrics["path_mtu_bytes"] != there || a.Metrics["reverse_path_mtu_bytes"] != back {
			t.Errorf("%v bytes there, %v back, want %v and %v: %s %q", a.Metrics["path_mtu_bytes"], a.Metrics["reverse_path_mtu_bytes"], there, back, a.Error, a.Facts)
		}
		if !strings.Contains(strings.Join(a.Facts, "; "), fact) {
			t.Errorf("facts %q, want one with %q", a.Facts, fact)
		}
		if a.Effective["interface_mtu_bytes"] != "1500" {
			t.Errorf("effective %v", a.Effective)
		}
	}
	families(t, func(t *testing.T, v6 bool) { expect(t, v6, 1500, 1500, "right bounds the search") })
	// Both ends of the middle link, as a tunnel's would be.
	p.Router(1).MTU(t, "right", 1387)
	p.Router(2).MTU(t, "left", 1387)
	families(t, func(t *testing.T, v6 bool) {
		expect(t, v6, 1387, 1387, fmt.Sprintf("the router %v said that its next link carries 1387 bytes", p.Hop(1, v6)))
	})
	p.filter(t, "output", "meta l4proto icmp drop; add rule inet t c icmpv6 type packet-too-big drop")
	families(t, func(t *testing.T, v6 bool) {
		expect(t, v6, 1387, 1387, "black hole: packets of more than 1387 bytes")
		// Segments and packets that fit pass, with all that the two ends say of them.
		mss := 1387 - 40
		if v6 {
			mss -= 20
		}
		for _, spec := range []measurement.Spec{
			{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.1},
			{Kind: measurement.RR, Protocol: measurement.OverTCP, RequestBytes: 5000, ResponseBytes: 5000, Duration: 0.1},
			{Kind: measurement.TCP, Direction: measurement.Both, Duration: 0.3, MaxWarmup: 0.1},
			{Kind: measurement.UDP, RateBitsPerSecond: 1e6, PacketBytes: mss + 12, Duration: 0.3},
		} {
			spec.MSSBytes = mss
			if a := p.run(t, spec, v6); a.Error != "" || a.Metrics["loss_fraction"] > 0.5 {
				t.Errorf("%s in a black hole, with what fits: %s %v", spec.Kind, a.Error, a.Metrics)
			}
		}
	})
}

// Ends that share a link need no other addresses than those of that. The interface is another at
// each of them, which translates nothing.
func TestOnALink(t *testing.T) {
	p := newPath(t, 0)
	address := func(n *chaintest.Node, device string) netip.Addr {
		out, err := n.Output(t, "ip", "-6", "-o", "address", "show", "dev", device, "scope", "link")
		testutil.OK(t, err)
		_, text, _ := strings.Cut(out, "inet6 ")
		text, _, _ = strings.Cut(text, "/")
		a, err := netip.ParseAddr(text)
		testutil.OK(t, err)
		return a
	}
	far := address(p.Destination(), "left")
	at := serveIn(t, func(f func()) { p.Destination().Do(t, f) }, netip.AddrPortFrom(far.WithZone("left"), 0))
	for _, spec := range []measurement.Spec{
		{Kind: measurement.RR, Protocol: measurement.OverTCP, Duration: 0.1},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.1},
		{Kind: measurement.TCP, Duration: 0.3, MaxWarmup: 0.1},
		{Kind: measurement.UDP, RateBitsPerSecond: 1e6, Duration: 0.3},
		{Kind: measurement.MTU},
		{Kind: measurement.Trace},
		{Kind: measurement.Ping, Count: 1},
	} {
		a := runIn(t, func(f func()) { p.Source().Do(t, f) }, probe.Request{ID: "link", Spec: spec, Target: netip.AddrPortFrom(far.WithZone("right"), at.Port())})
		if a.Error != "" || a.Metrics["loss_fraction"] == 1 || strings.Contains(strings.Join(a.Facts, "; "), "translated") {
			t.Errorf("%s over %s: %s %v %q", spec.Kind, spec.Protocol, a.Error, a.Metrics, a.Facts)
		}
	}
}

// An end may have its address on another interface than packets leave by: on loopback, where a
// host announces it itself, or on one with a smaller MTU.
func TestPathMTUOfAnotherInterface(t *testing.T) {
	const own, bound = "10.99.0.1", "interface that packets leave by bounds the search: the path carries at least its MTU, 1500 bytes"
	for device, mtu := range map[string]string{"lo": "65536", "small": "1280"} {
		t.Run(device, func(t *testing.T) {
			p := newPath(t, 1)
			ip := func(n *chaintest.Node, args ...string) {
				t.Helper()
				if out, err := n.Output(t, "ip", args...); err != nil {
					t.Fatalf("ip %v: %s", args, out)
				}
			}
			if device != "lo" {
				ip(p.Source(), "link", "add", device, "type", "veth", "peer", "name", "other")
			}
			ip(p.Source(), "link", "set", device, "mtu", mtu, "up")
			ip(p.Source(), "address", "add", own+"/32", "dev", device)
			ip(p.Router(1), "route", "add", own+"/32", "via", "10.77.0.1")
			a := runIn(t, func(f func()) { p.Source().Do(t, f) }, probe.Request{
				ID: "path", Spec: measurement.Spec{Kind: measurement.MTU, Timeout: 0.5}, Target: p.targets[0], Source: netip.MustParseAddr(own),
			})
			if a.Error != "" || a.Metrics["path_mtu_bytes"] != 1500 || a.Metrics["reverse_path_mtu_bytes"] != 1500 || a.Effective["path_mtu_limit"] != measurement.MTUSearch {
				t.Errorf("%v %v: %s %q", a.Metrics, a.Effective, a.Error, a.Facts)
			}
			if !strings.Contains(strings.Join(a.Facts, "; "), bound) {
				t.Errorf("facts %q, want one with %q", a.Facts, bound)
			}
		})
	}
}

// A router that names its next link's MTU hides no black hole behind it.
func TestBlackHoleBehindARouter(t *testing.T) {
	p := newPath(t, 2)
	p.Router(1).MTU(t, "right", 1400)
	p.Router(2).MTU(t, "left", 1400)
	p.Router(2).MTU(t, "right", 1300)
	p.filterAt(t, 2, "output", "meta l4proto icmp drop; add rule inet t c icmpv6 type packet-too-big drop")
	families(t, func(t *testing.T, v6 bool) {
		a := p.run(t, measurement.Spec{Kind: measurement.MTU, Timeout: 0.5}, v6)
		if a.Error != "" || a.Metrics["path_mtu_bytes"] != 1300 || a.Effective["path_mtu_limit"] != measurement.MTUBlackHole {
			t.Errorf("%v %v: %s %q", a.Metrics, a.Effective, a.Error, a.Facts)
		}
		if fact := fmt.Sprintf("up to the 1400 that the router %v said", p.Hop(1, v6)); !strings.Contains(strings.Join(a.Facts, "; "), fact) {
			t.Errorf("facts %q, want one with %q", a.Facts, fact)
		}
	})
}

// The router drops every tenth large packet: the count says so exactly, and
// the search finds nothing to be happy with.
func TestLossOnThePath(t *testing.T) {
	p := newPath(t, 1)
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		p.filter(t, "forward", "meta length > 500 meta l4proto udp numgen inc mod 10 0 drop")
		families(t, func(t *testing.T, v6 bool) {
			a := p.run(t, measurement.Spec{
				Kind: measurement.UDP, Direction: direction, PacketBytes: 1000, RateBitsPerSecond: 8e6, GSO: measurement.Off, Duration: 1,
			}, v6)
			sent := a.Metrics["sent_bits_per_second"] / 8 / 1000 // packets in the second
			lost := a.Metrics["loss_fraction"] * sent
			if a.Error != "" || lost < sent/10-1 || lost > sent/10+1 {
				t.Errorf("lost %v of %v packets, the router drops every tenth: %s %q", lost, sent, a.Error, a.Facts)
			}
			// Of the very packets that were sent in the second, nine of ten arrived.
			if got, want := a.Metrics["goodput_bits_per_second"]/8/1000, sent-lost; math.Abs(got-want) > 1e-6*want {
				t.Errorf("goodput of %v packets a second, want %v", got, want)
			}
			if a.Metrics["reordered_fraction"] != 0 || a.Metrics["duplicated_fraction"] != 0 {
				t.Errorf("%v", a.Metrics)
			}
		})
	}
}

// What the router drops is infinitely late in the percentiles: a median is there while more
// than half is answered, a tail is not.
func TestLostRequestsAreInfinitelyLate(t *testing.T) {
	p := newPath(t, 1)
	ping := measurement.Spec{Kind: measurement.Ping, Count: 60, Interval: 0.002, Timeout: 0.5}
	open := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, RequestsPerSecond: 300, Timeout: 0.5, Duration: 0.4}
	for _, c := range []struct {
		spec       measurement.Spec
		rule       string
		lost       float64
		median     bool
		percentile float64 // that is lost
	}{
		{ping, "icmp type echo-request numgen inc mod 4 0 drop", 1.0 / 4, true, 80},
		{ping, "icmp type echo-request numgen inc mod 3 { 0, 1 } drop", 2.0 / 3, false, 50},
		{open, "meta l4proto udp numgen inc mod 8 0 drop", 1.0 / 8, true, 99}, // of requests and answers
	} {
		p.filter(t, "forward", c.rule)
		a := p.run(t, c.spec, false)
		if a.Error != "" || a.Latency == nil {
			t.Fatalf("%s: %s", c.rule, a.Error)
		}
		d := *a.Latency
		sent := float64(d.Due())
		if math.Abs(float64(d.Unanswered)-c.lost*sent) > 0.05*sent+2 && c.spec.Kind == measurement.Ping || d.Unanswered == 0 {
			t.Errorf("%s: %d of %v have no answer", c.rule, d.Unanswered, sent)
		}
		if _, ok := a.Metrics["rtt_p50_seconds"]; ok != c.median {
			t.Errorf("%s: a median %v, with %d of %v answered", c.rule, ok, d.Samples, sent)
		}
		if _, ok := d.At(c.percentile); ok || d.Lacks(c.percentile) != measurement.LacksAnswer {
			t.Errorf("%s: p%v lacks %q", c.rule, c.percentile, d.Lacks(c.percentile))
		}
	}
}

// A path that goes dark in the middle is seen, although no packet comes after it.
func TestPathGoesDark(t *testing.T) {
	p := newPath(t, 1)
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		const passing = 100 // packets of 1000 bytes
		p.filter(t, "forward", fmt.Sprintf("meta l4proto udp meta length > 500 quota over %d bytes drop", passing*1000))
		a := p.run(t, measurement.Spec{
			Kind: measurement.UDP, Direction: direction, PacketBytes: 972, RateBitsPerSecond: 8e6, GSO: measurement.Off, Duration: 1, MaxWarmup: 0.01,
		}, false)
		sent := a.Metrics["sent_bits_per_second"] / 8 / 972
		if got := (1 - a.Metrics["loss_fraction"]) * sent; a.Error != "" || got > passing+0.5 {
			t.Errorf("%v of %v packets came, %d may: %s", got, sent, passing, a.Error)
		}
	}
}

// So it is with iperf3, whose count of losses ends with the last packet that came, and whose result
// comes over a connection that may stay whole.
func TestPathGoesDarkForIPerf3(t *testing.T) {
	for direction, end := range map[measurement.Direction]string{measurement.Send: "sport", measurement.Receive: "dport"} {
		t.Run(string(direction), func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			p := newPath(t, 1)
			p.filter(t, "forward", "meta l4proto udp meta length > 500 quota over 250 kbytes drop") // of 1 MB a second
			spec := measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3, Direction: direction, PacketBytes: 972, RateBitsPerSecond: 8e6, Duration: 1}
			if a := p.run(t, spec, false); a.Error != "" || a.Metrics["loss_fraction"] < 0.5 {
				t.Errorf("a loss of %v: %s", a.Metrics["loss_fraction"], a.Error)
			}
			const port = 21000 // of the first of two streams, and the next is lost
			p.filter(t, "forward", fmt.Sprintf("tcp %s %d quota over 100 kbytes drop", end, port+1))
			spec = measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3, Direction: direction, Flows: 2, SourcePort: port, PacingBitsPerSecond: 8e6, Duration: 4}
			if a := p.run(t, spec, false); a.Reason != probe.TimedOut || !strings.Contains(a.Error, "stream 2 of 2: the other end stopped answering") {
				t.Errorf("%s %s, and %v", a.Reason, a.Error, a.Metrics["goodput_bits_per_second"])
			}
		})
	}
}

func TestUDPIsDropped(t *testing.T) {
	p := newPath(t, 1)
	udp := measurement.Spec{Kind: measurement.UDP, Duration: 0.2, PacketBytes: 1000, RateBitsPerSecond: 1e6}
	for name, c := range map[string]struct{ rule, advice string }{
		"all":          {"meta l4proto udp drop", "a firewall may drop UDP to"},
		"large ones":   {"meta l4proto udp meta length > 500 drop", "try a smaller packet_bytes"},
		"with a reset": {"meta l4proto udp reject", "answered: port unreachable (ICMP): UDP to"},
		"prohibited":   {"meta l4proto udp reject with icmp type admin-prohibited", "answered: communication administratively prohibited (ICMP): UDP to"},
		"no such host": {"meta l4proto udp reject with icmp type host-unreachable", "answered: host unreachable (ICMP): UDP to"},
	} {
		p.filter(t, "forward", c.rule)
		if a := p.run(t, udp, false); a.Reason != probe.TimedOut || !strings.Contains(a.Error, c.advice) {
			t.Errorf("%s: %s %s", name, a.Reason, a.Error)
		}
	}
	p.filter(t, "forward", "accept")
	own := "flush ruleset; add table inet t; add chain inet t c { type filter hook output priority 0; }; "
	if out, err := p.Source().Output(t, "nft", own+"add rule inet t c meta l4proto udp drop"); err != nil {
		t.Fatal(out)
	}
	if a := p.run(t, udp, false); a.Reason != probe.Local || !strings.Contains(a.Error, "its own firewall drops them") {
		t.Errorf("own firewall: %s %s", a.Reason, a.Error)
	}
	_, err := p.Source().Output(t, "nft", own)
	testutil.OK(t, err)
	if a := p.run(t, udp, false); a.Error != "" || a.Metrics["goodput_bits_per_second"] <= 0 {
		t.Errorf("after all that: %s %v", a.Error, a.Metrics)
	}
}

// The responses of short connections are marked whoever sends them: the thread that
// accepts small ones, or else the connection's own.
func TestResponsesAreMarked(t *testing.T) {
	p := newPath(t, 1)
	p.filter(t, "forward", "meta l4proto tcp meta length > 900 ip dscp != 10 drop; add rule inet t c meta l4proto tcp meta length > 900 ip6 dscp != 10 drop")
	families(t, func(t *testing.T, v6 bool) {
		for _, size := range []int{1000, 10_000} {
			a := p.run(t, measurement.Spec{Kind: measurement.CRR, DSCP: 10, ResponseBytes: size, Duration: 0.1, MaxWarmup: 0.01}, v6)
			if a.Error != "" || a.Metrics["failed_connections_count"] != 0 {
				t.Errorf("responses of %d bytes: %s %v", size, a.Error, a.Metrics)
			}
		}
	})
}
