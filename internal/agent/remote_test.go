package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// longLease does not end within a test.
const longLease = 10 * time.Minute

// remote runs an agent with a lease and returns its coordinator's client.
func remote(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = longLease
	}
	near, done := serving(o)
	c, err := Connect(testContext(t), near)
	testutil.OK(t, err)
	t.Cleanup(func() {
		testutil.OK(t, c.Close())
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

func anyPort() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:0") }

func TestHello(t *testing.T) {
	c := remote(t, Options{Limits: probe.Limits{MaxRateBitsPerSecond: 1e9, MaxFlows: 7, MaxDuration: time.Minute}, AllowTargets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	h := c.Hello()
	if h.Protocol != protocol.AgentVersion || h.Host == "" || h.OS == "" || h.Environment["cpus"] == "" || h.Lease.Duration() != longLease ||
		h.MaxRateBitsPerSecond != 1e9 || h.MaxFlows != 7 || h.MaxDuration != 60 || len(h.AllowTargets) != 1 {
		t.Errorf("got %+v", h)
	}
	found := false
	for _, i := range h.Interfaces {
		for _, a := range i.Addresses {
			found = found || a == netip.MustParseAddr("127.0.0.1") && i.MTUBytes > 0
		}
	}
	if !found {
		t.Errorf("no loopback among %+v", h.Interfaces)
	}
}

// Coordinator and agent of different versions say so, with both versions.
func TestAnotherVersion(t *testing.T) {
	near, done := serving(Options{Lease: longLease})
	c := NewClient(near)
	for _, r := range []request{
		{Op: opHello, Hello: &helloRequest{Protocol: 99, Version: "v9.9"}},
		{Op: opListen, Listen: &listenRequest{Address: anyPort(), Token: testToken}},
	} {
		_, err := c.do(testContext(t), r, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Protocol ||
			!strings.Contains(err.Error(), "version 1") || !strings.Contains(err.Error(), "the same hopbench at both ends") {
			t.Errorf("%s: got %v", r.Op, err)
		}
	}
	testutil.OK(t, c.Close())
	testutil.OK(t, <-done)
}

// A coordinator that may not have the agent's host is told why, and can do nothing; one that
// may has it until the agent has ended all it does.
func TestClaim(t *testing.T) {
	claims, held := 0, false
	o := Options{Lease: longLease, Claim: func(_ context.Context, coordinator string) (func(), error) {
		if claims++; claims == 1 {
			return nil, errors.New("somebody else has it, not " + coordinator)
		}
		held = true
		return func() { held = false }, nil
	}}
	near, done := serving(o)
	c := NewClient(near)
	hello := request{Op: opHello, Hello: &helloRequest{Protocol: protocol.AgentVersion, Coordinator: "me"}}
	_, err := c.do(testContext(t), hello, nil)
	if probe.ReasonOf(err) != probe.Limit || !strings.Contains(err.Error(), "somebody else has it, not me") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Listen(testContext(t), anyPort(), Serving{Token: testToken}); probe.ReasonOf(err) != probe.Protocol {
		t.Errorf("without a hello that was taken: %v", err)
	}
	_, err = c.do(testContext(t), hello, nil)
	testutil.OK(t, err)
	_, err = c.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	if !held {
		t.Error("the host is not held")
	}
	testutil.OK(t, c.Close())
	testutil.OK(t, <-done)
	if held || claims != 2 {
		t.Errorf("held: %v, claimed %d times", held, claims)
	}
}

// An agent whose coordinator is silent, though its connection stands, ends all that it
// does, and says why.
func TestLeaseEnds(t *testing.T) {
	testutil.Longer(t, func(factor float64) (lacking string) {
		lease := time.Duration(factor * float64(300*time.Millisecond))
		near, ended := serving(Options{Lease: lease})
		c := NewClient(near) // which keeps up no lease
		_, err := c.do(testContext(t), request{Op: opHello, Hello: &helloRequest{Protocol: protocol.AgentVersion}}, nil)
		var at netip.AddrPort
		if err == nil {
			at, err = c.Listen(testContext(t), anyPort(), Serving{Token: testToken})
		}
		if err := <-ended; !errors.Is(err, errSilent) {
			t.Errorf("Serve: %v", err)
		}
		<-c.Done()
		if why := c.Err(); why == nil || !strings.Contains(why.Error(), "nothing was heard of the coordinator for "+lease.String()) {
			t.Errorf("the coordinator is told %v", why)
		}
		testutil.OK(t, c.Close())
		if err != nil {
			return "the agent did not listen within its lease: " + err.Error()
		}
		if conn, err := net.Dial("tcp", at.String()); err == nil {
			t.Error("its server goes on")
			conn.Close()
		}
		return ""
	})
}

// A client keeps up the lease of its agent however long it asks for nothing.
func TestLeaseIsKeptUp(t *testing.T) {
	testutil.Longer(t, func(factor float64) (lacking string) {
		lease := time.Duration(factor * float64(500*time.Millisecond))
		near, ended := serving(Options{Lease: lease})
		c, err := Connect(testContext(t), near)
		if err == nil {
			select {
			case <-c.Done():
				err = c.Err()
			case <-time.After(2 * lease):
			}
			err = errors.Join(err, c.Close())
		}
		if err = errors.Join(err, <-ended); err != nil {
			return err.Error()
		}
		return ""
	})
}

// A client whose agent says nothing any more, though the connection stands, ends.
func TestSilentAgent(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		var asked request
		if protocol.Expect(far, protocol.TypeAgentRequest, maxRequest, &asked) == nil {
			_ = protocol.WriteFrame(far, protocol.TypeAgentReply, reply{ID: asked.ID, Hello: &Hello{Host: "silent", Lease: 0.2}})
		}
		for b := make([]byte, 100); ; {
			if _, err := far.Read(b); err != nil {
				return
			}
		}
	}()
	c, err := Connect(testContext(t), near)
	testutil.OK(t, err)
	<-c.Done()
	if err := c.Err(); !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Counters(testContext(t), "lo"); !errors.Is(err, errSilent) {
		t.Errorf("asked for counters: %v", err)
	}
	testutil.OK(t, c.Close())
}

func TestListenOnAnyPortAndEnd(t *testing.T) {
	far, near := remote(t, Options{}), remote(t, Options{})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	if at.Port() == 0 {
		t.Fatalf("listens at %v", at)
	}
	request := probe.Request{Target: at, Token: testToken}
	proof, err := near.Prove(testContext(t), request)
	testutil.OK(t, err)
	if proof.Server != at || proof.Client != proof.Local || proof.Client.Addr() != at.Addr() {
		t.Errorf("got %+v, want the server %v", proof, at)
	}
	testutil.OK(t, far.Unlisten(testContext(t), at))
	if _, err := near.Prove(testContext(t), request); err == nil {
		t.Error("it still listens")
	}
	if err := far.Unlisten(testContext(t), at); err == nil {
		t.Error("ended twice")
	}
}

// Whoever is at the other end of the network gets from an agent what its owner allows.
func TestAgentsOwnLimits(t *testing.T) {
	far := remote(t, Options{})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	near := remote(t, Options{Limits: probe.Limits{MaxRateBitsPerSecond: 50e6, MaxFlows: 2, MaxDuration: 2 * time.Second}})
	for name, spec := range map[string]measurement.Spec{
		"flows":          {Kind: measurement.TCP, Flows: 3, Duration: 0.1},
		"duration":       {Kind: measurement.RR, Duration: 3},
		"rate":           {Kind: measurement.UDP, Duration: 0.1, RateBitsPerSecond: 60e6},
		"pacing":         {Kind: measurement.TCP, Flows: 2, Duration: 0.1, PacingBitsPerSecond: 30e6},
		"pings":          {Kind: measurement.Ping, Count: 100, Interval: 1},
		"iperf3":         {Kind: measurement.TCP, Duration: 0.1, Tool: measurement.IPerf3},
		"a stock server": {Kind: measurement.FTP, FilePath: "/big"},
	} {
		_, err := near.Run(testContext(t), probe.Request{Target: at, Token: testToken, Spec: spec}, nil)
		failsFor(t, name, err, probe.Limit)
	}
	if _, err := near.Listen(testContext(t), anyPort(), Serving{Token: testToken, IPerf3: true}); err == nil {
		t.Error("an agent serves who cannot prove the token")
	}
	// What asks for no rate is paced, whoever sends.
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		for _, k := range []measurement.Kind{measurement.TCP, measurement.UDP} {
			spec := measurement.Spec{Kind: k, Duration: 0.5, MaxWarmup: 0.1, Direction: direction}
			out, err := near.Run(testContext(t), probe.Request{Target: at, Token: testToken, Spec: spec}, nil)
			testutil.OK(t, err)
			if rate := out.Metrics["goodput_bits_per_second"]; rate == 0 || rate > 80e6 {
				t.Errorf("%s, %s: %.0f bit/s", k, direction, rate)
			}
		}
	}
}

// An iperf3 server is sent no more than the agent's owner allows, and asked for no more.
func TestAgentsOwnRateWithIPerf3(t *testing.T) {
	t.Parallel() // it waits for most of its time
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	far := remote(t, Options{AllowTargets: loopback})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken, IPerf3: true})
	testutil.OK(t, err)
	const most = 50e6
	near := remote(t, Options{Limits: probe.Limits{MaxRateBitsPerSecond: most}, AllowTargets: loopback})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Direction: measurement.Send, Flows: 2},
		{Kind: measurement.TCP, Direction: measurement.Receive},
		{Kind: measurement.TCP, Direction: measurement.Both},
		{Kind: measurement.UDP, Direction: measurement.Send},
	} {
		spec.Tool, spec.Duration, spec.MaxWarmup = measurement.IPerf3, 1, 0.1
		out, err := near.Run(testContext(t), probe.Request{Target: at, Spec: spec}, nil)
		testutil.OK(t, err)
		if rate := out.Metrics["goodput_bits_per_second"]; rate == 0 || rate > 1.6*most {
			t.Errorf("%s, %s: %.0f bit/s where the agent allows %.0f", spec.Kind, spec.Direction, rate, most)
		}
		if !strings.Contains(strings.Join(out.Facts, "\n"), "--max-rate") {
			t.Errorf("%s, %s: nothing is said of the agent's bound: %q", spec.Kind, spec.Direction, out.Facts)
		}
	}
}

// A stock FTP server keeps to no rate, so that an agent with one has no file sent from there.
func TestAgentsOwnRateWithStockFTP(t *testing.T) {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	stock := testutil.Listen(t, func(c net.Conn) { t.Error("the FTP server was asked for a file") })
	near := remote(t, Options{Limits: probe.Limits{MaxRateBitsPerSecond: 50e6}, AllowTargets: []netip.Prefix{loopback}})
	_, err := near.Run(testContext(t), probe.Request{Target: stock, Spec: measurement.Spec{Kind: measurement.FTP, FilePath: "/file"}}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Limit || !strings.Contains(err.Error(), "--max-rate") {
		t.Errorf("got %v", err)
	}
}

// An agent serves iperf3's clients, which prove nothing, and may have load sent to them, only from
// where its owner allows that.
func TestIPerf3ClientsOfAnAgent(t *testing.T) {
	t.Parallel() // it waits for most of its time
	far := remote(t, Options{AllowTargets: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken, IPerf3: true})
	testutil.OK(t, err)
	spec := measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3, Direction: measurement.Receive, Duration: 1, MaxWarmup: 0.1, PacingBitsPerSecond: 10e6}
	for source, want := range map[string]probe.Reason{"127.0.0.1": probe.Unauthorized, "127.0.0.2": ""} {
		_, err := probe.Run(testContext(t), probe.Request{Target: at, Source: netip.MustParseAddr(source), Spec: spec}, nil)
		var got probe.Reason
		if err != nil {
			got = probe.ReasonOf(err)
		}
		if got != want {
			t.Errorf("a client at %s: %v, want reason %q", source, err, want)
		}
	}
}

// Ping and trace go where the token was proved, or where the agent's owner allows them.
func TestPingNeedsProof(t *testing.T) {
	far, near := remote(t, Options{}), remote(t, Options{AllowTargets: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	request := probe.Request{Target: at, Token: testToken, Spec: measurement.Spec{Kind: measurement.Ping, Count: 1, Timeout: 1}}
	refused := func(r probe.Request) bool {
		_, err := near.Run(testContext(t), r, nil)
		e, ok := errors.AsType[*probe.Error](err)
		return ok && e.Reason == probe.Limit
	}
	if !refused(request) {
		t.Error("an address is pinged that proved nothing")
	}
	wrong := request
	wrong.Token = "another"
	if _, err := near.Prove(testContext(t), wrong); err == nil {
		t.Error("proved another token")
	}
	if !refused(request) {
		t.Error("an address is pinged that proved another token")
	}
	if _, err := near.Canary(testContext(t), CanaryRequest{Target: at, UserAgent: "x", Timeout: 1}); err == nil {
		t.Error("a canary is sent to an address that proved nothing")
	}
	if _, err = near.Prove(testContext(t), request); err != nil {
		t.Fatal(err)
	}
	if refused(request) {
		t.Error("an address is not pinged that has proved the token")
	}
	request.Target = netip.MustParseAddrPort("127.0.0.3:1")
	if !refused(request) {
		t.Error("one proof is taken for all addresses")
	}
	request.Target = netip.MustParseAddrPort("127.0.0.2:1")
	if refused(request) {
		t.Error("what the owner allows is refused")
	}
}

// What an agent is allowed is an address, whichever of its interfaces leads there.
func TestAllowedOnALink(t *testing.T) {
	s := newServer(t.Context(), nil, Options{Lease: time.Minute, AllowTargets: []netip.Prefix{netip.MustParsePrefix("fe80::/64")}})
	if err := s.permitTarget("iperf3 test", netip.MustParseAddr("fe80::7%eth0"), false); err != nil {
		t.Error(err)
	}
	if err := s.permitTarget("iperf3 test", netip.MustParseAddr("fe80:1::7%eth0"), false); err == nil {
		t.Error("an address of another network is allowed")
	}
}

// A test that ran has proved the token, too.
func TestTestIsProof(t *testing.T) {
	far, near := remote(t, Options{}), remote(t, Options{})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	request := probe.Request{Target: at, Token: testToken, Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.01, MaxWarmup: 0.01}}
	_, err = near.Run(testContext(t), request, nil)
	testutil.OK(t, err)
	got, err := near.Canary(testContext(t), CanaryRequest{Target: at, UserAgent: "hopbench", Timeout: 30})
	if err != nil || got.Answer != CanaryPassed {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What a firewall does to a request is told.
func TestCanary(t *testing.T) {
	near := start(t)
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  CanaryAnswer
	}{
		"reset":         {func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); _ = c.(*net.TCPConn).SetLinger(0) }, CanaryReset},
		"ended":         {func(c net.Conn) { _, _ = c.Read(make([]byte, 1000)) }, CanaryReset},
		"a page of its": {func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")) }, CanaryReset},
		"silent":        {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, CanarySilent},
	} {
		at := testutil.Listen(t, c.serve)
		request := CanaryRequest{Target: at, UserAgent: "HaxerMen", Timeout: 30}
		if c.want == CanarySilent {
			request.Timeout = 1
		}
		got, err := near.Canary(testContext(t), request)
		if err != nil || got.Answer != c.want || got.Evidence == "" {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, c.want)
		}
	}
	if _, err := near.Canary(testContext(t), CanaryRequest{Target: netip.MustParseAddrPort("127.0.0.1:1"), UserAgent: "x", Timeout: 1}); err == nil {
		t.Error("no connection says something of the request")
	}
}

// The interface of an address is this end's, and no part of what it asks for.
func TestCanaryOnALink(t *testing.T) {
	near := start(t)
	at, err := near.Listen(testContext(t), netip.MustParseAddrPort("[::1]:0"), Serving{})
	testutil.Need(t, err == nil, fmt.Sprintf("IPv6: %v", err))
	target := netip.AddrPortFrom(at.Addr().WithZone("lo"), at.Port())
	got, err := near.Canary(testContext(t), CanaryRequest{Target: target, UserAgent: "x", Timeout: 30})
	if err != nil || got.Answer != CanaryPassed {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCountersOfAnotherAgent(t *testing.T) {
	c := remote(t, Options{})
	first, err := c.Counters(testContext(t), "lo")
	if err != nil && strings.Contains(err.Error(), "not told by this operating system") {
		return // it says so
	}
	testutil.OK(t, err)
	far, err := net.ListenPacket("udp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer far.Close()
	for range 10 {
		_, err := far.WriteTo(make([]byte, 1000), far.LocalAddr())
		testutil.OK(t, err)
	}
	second, err := c.Counters(testContext(t), "lo")
	testutil.OK(t, err)
	if n := second.Interface.SentBytes - first.Interface.SentBytes; n < 10_000 {
		t.Errorf("%d bytes more were sent on lo", n)
	}
	if second.CPUs == 0 || second.CPUTotal < first.CPUTotal || second.Taken.IsZero() {
		t.Errorf("got %+v and then %+v", first, second)
	}
}
