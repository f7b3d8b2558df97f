package probe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
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
	"github.com/hopbench/hopbench/internal/testutil"
)

// badPeer is a client that speaks the protocol as far as a test wants.
type badPeer struct {
	net.Conn
	session string
}

// dialBad connects from an address of loopback.
func dialBad(t testing.TB, target netip.AddrPort, from string) *badPeer {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", target.String())
	testutil.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	// No state of a server lasts so long.
	testutil.OK(t, c.SetDeadline(time.Now().Add(50*time.Second)))
	testID, err := session.NewID()
	testutil.OK(t, err)
	return &badPeer{c, testID}
}

// open asks for spec, which may be any JSON, up to READY.
func (p *badPeer) open(spec any, flow int) (ready protocol.Ready, err error) {
	if err := protocol.ClientHandshake(p, "", protocol.Identity{Session: p.session, Flow: flow}); err != nil {
		return ready, err
	}
	if err := protocol.WriteFrame(p, protocol.TypeOpen, map[string]any{"spec": spec, "host_series": true}); err != nil {
		return ready, err
	}
	return ready, protocol.Expect(p, protocol.TypeReady, protocol.MaxControl, &ready)
}

func (p *badPeer) start(t testing.TB) {
	t.Helper()
	testutil.OK(t, protocol.WriteFrame(p, protocol.TypeStart, nil))
}

// ended reads to the end of the connection, and fails if the server does not end it.
func (p *badPeer) ended(t testing.TB, what string) string {
	t.Helper()
	said, err := io.ReadAll(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the server keeps the connection", what)
	}
	return string(said)
}

var (
	tinyTCP = measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 0.1}
	tinyRR  = measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1, Duration: 0.1}
	longRR  = measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1, Duration: 600}
)

// mustServe checks that an honest client is served.
func mustServe(t testing.TB, target netip.AddrPort, what string) {
	t.Helper()
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: tinyRR, Target: target}, nil); err != nil {
		t.Errorf("%s: an honest client is not served: %v", what, err)
	}
}

// What a spec says beyond its kind, or beyond the limits, is refused before anything
// is made for it.
func TestSpecsFromTheWireAreRefused(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxDuration: time.Minute, MaxFlows: 8, MaxRateBitsPerSecond: 1e6}})
	for _, c := range []struct {
		name, spec string
		want       probe.Reason
		says       string
	}{
		{"a negative part of a test", `{"kind":"tcp","flows":1,"direction":"send","duration_seconds":1,"idle_duration_seconds":-100}`, probe.Protocol, "idle"},
		{"100 days in a part of another kind", `{"kind":"tcp","flows":1,"direction":"receive","duration_seconds":1,"idle_duration_seconds":8640000}`, probe.Protocol, "idle"},
		{"escapes in a field of another kind", `{"kind":"tcp","flows":1,"direction":"send","duration_seconds":1,"protocol":"\u001b[2J"}`, probe.Protocol, "protocol"},
		{"escapes in the kind", `{"kind":"\u001b[2J"}`, probe.Protocol, "no kind of test"},
		{"escapes in a name", `{"kind":"tcp","flows":1,"direction":"send","duration_seconds":1,"congestion_control":"\u001b[2J"}`, probe.Protocol, "congestion_control"},
		{"iperf3", `{"kind":"tcp","tool":"iperf3","flows":1,"direction":"send","duration_seconds":1}`, probe.Unsupported, "takes no part"},
		{"no server's kind", `{"kind":"ping","count":1,"interval_seconds":1,"payload_bytes":56,"timeout_seconds":1}`, probe.Unsupported, "takes no part"},
		{"parts that are too long together", `{"kind":"tcp","flows":1,"direction":"send","duration_seconds":40,"max_warmup_seconds":40}`, probe.Limit, "--max-duration"},
		{"a search that is too long", `{"kind":"mtu","timeout_seconds":60}`, probe.Limit, "--max-duration"},
		{"too many flows", `{"kind":"crr","flows":9,"duration_seconds":1,"request_bytes":1,"response_bytes":1}`, probe.Limit, "--max-flows"},
		{"packets that are too fast", `{"kind":"udp","flows":1,"direction":"receive","duration_seconds":1,"rate_bits_per_second":2e6}`, probe.Limit, "--max-rate"},
		{"flows that are too fast together", `{"kind":"tcp","flows":4,"direction":"send","duration_seconds":1,"pacing_bits_per_second":5e5}`, probe.Limit, "--max-rate"},
		{"flows that no kernel paces", `{"kind":"tcp","flows":1,"direction":"receive","duration_seconds":1,"mptcp":true}`, probe.Limit, "--max-rate), and Linux does not pace connections of MPTCP"},
		{"responses that are too fast", `{"kind":"rr","protocol":"udp","request_bytes":1,"response_bytes":65507,"in_flight":1,"requests_per_second":1000,"duration_seconds":1}`, probe.Limit, "--max-rate"},
		{"a spec as long as 20 kB", `{"kind":"` + strings.Repeat("x", 20<<10) + `"}`, probe.Protocol, ""},
	} {
		p := dialBad(t, target, "127.0.0.1")
		_, err := p.open(json.RawMessage(c.spec), 0)
		remote := new(protocol.RemoteError)
		if errors.As(err, &remote) {
			if remote.Reason != string(c.want) || !strings.Contains(remote.Message, c.says) || strings.Contains(remote.Message, "\x1b") {
				t.Errorf("%s: %v, want %s of %q", c.name, err, c.want, c.says)
			}
		} else if c.says != "" || err == nil {
			t.Errorf("%s: %v, want to be told %s", c.name, err, c.want)
		}
	}
	mustServe(t, target, "after all these")
}

// A test is its number and its client's address, has one spec, and each flow once.
func TestWhatIsOneTest(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	spec := tinyTCP
	spec.Flows = 3
	first := dialBad(t, target, "127.0.0.1")
	one, err := first.open(spec, 0)
	testutil.OK(t, err)
	joined := func(from string, spec measurement.Spec, flow int) (protocol.Ready, error) {
		p := dialBad(t, target, from)
		p.session = first.session
		return p.open(spec, flow)
	}
	other := spec
	other.Duration = 0.2
	for _, c := range []struct {
		name string
		spec measurement.Spec
		flow int
		want string
	}{
		{"another spec", other, 1, "asked for another test"},
		{"the same flow", spec, 0, "flow 0 of this test is here already"},
		{"a flow too many", spec, 3, "flow 4 of 3"},
	} {
		if _, err := joined("127.0.0.1", c.spec, c.flow); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := joined("127.0.0.1", spec, 1); err != nil {
		t.Errorf("another flow: %v", err)
	}
	stranger, err := joined("127.0.0.2", spec, 0)
	if err != nil {
		t.Fatalf("the same number from another address: %v", err)
	}
	if slices.Equal(one.Cookie, stranger.Cookie) {
		t.Error("who comes from another address is told the cookie of the first")
	}
}

// UDP is answered to an address only as long as that address has a connection.
func TestNothingIsSentToWhoHasLeft(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	spec := longRR
	spec.Protocol, spec.ResponseBytes = measurement.OverUDP, 65507
	first := dialBad(t, target, "127.0.0.1")
	if _, err := first.open(spec, 0); err != nil {
		t.Fatal(err)
	}
	second := dialBad(t, target, "127.0.0.2")
	second.session = first.session
	ready, err := second.open(spec, 0)
	testutil.OK(t, err)
	_ = first.Close()
	ask := func(from string) net.Conn {
		u, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(target))
		testutil.OK(t, err)
		t.Cleanup(func() { _ = u.Close() })
		packet := make([]byte, datagram.HeaderBytes)
		datagram.PutHeader(packet, ready.Cookie, datagram.Request)
		if _, err := u.Write(packet); err != nil {
			t.Fatal(err)
		}
		return u
	}
	forged, own := ask("127.0.0.1"), ask("127.0.0.2")
	in := make([]byte, datagram.MaxBytes)
	if n, err := own.Read(in); err != nil || n != 65507 {
		t.Fatalf("who opened the test is sent %d bytes, %v", n, err)
	}
	// The server answers in the order in which packets come.
	testutil.OK(t, forged.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := forged.Read(in); err == nil {
		t.Errorf("127.0.0.1 is sent %d bytes for the cookie of 127.0.0.2", n)
	}
}

// However slowly a client says something, in whatever state, its connection ends.
func TestTricklingPeers(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	preface := "\xf0hopbnc\x01"
	endless := func(ty protocol.Type) string {
		header := make([]byte, protocol.HeaderBytes)
		protocol.PutHeader(header, ty, protocol.MaxUnauthenticated)
		return string(header)
	}
	large := tinyRR
	large.RequestBytes = 1 << 20
	mtu := measurement.Spec{Kind: measurement.MTU, Timeout: 0.01}
	for _, c := range []struct {
		name  string
		reach func(t *testing.T, p *badPeer)
	}{
		{"before anything", func(*testing.T, *badPeer) {}},
		{"in HELLO", func(t *testing.T, p *badPeer) { mustWrite(t, p, preface+endless(protocol.TypeHello)) }},
		{"in PROOF", func(t *testing.T, p *badPeer) {
			hello, err := protocol.Encode(protocol.TypeHello, protocol.Hello{Identity: protocol.Identity{Session: p.session}, Nonce: make([]byte, protocol.NonceBytes)})
			testutil.OK(t, err)
			mustWrite(t, p, preface+string(hello)+endless(protocol.TypeProof))
		}},
		{"in OPEN", func(t *testing.T, p *badPeer) {
			if err := protocol.ClientHandshake(p, "", protocol.Identity{Session: p.session}); err != nil {
				t.Logf("this machine is too slow for the server's patience: %v", err)
				return
			}
			mustWrite(t, p, endless(protocol.TypeOpen))
		}},
		{"in a transaction", func(t *testing.T, p *badPeer) { mustWrite(t, p, "\xf1") }},
		{"in START of tcp", opens(tinyTCP, "")},
		{"in START of rr", opens(tinyRR, "")},
		{"in START of mtu", reaches(target, mtu)},
		{"in a request", opens(large, "start")},
		{"in DATA", opens(tinyTCP, "start")},
		{"instead of RECEIVED", opens(measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1, Duration: 0.1}, "start")},
		{"at the end of mtu", func(t *testing.T, p *badPeer) {
			reaches(target, mtu)(t, p)
			p.start(t)
			testutil.OK(t, protocol.WriteFrame(p, protocol.TypeReceived, nil))
			testutil.OK(t, protocol.Expect(p, protocol.TypeReport, protocol.MaxControl, nil))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := dialBad(t, target, "127.0.0.1")
			c.reach(t, p)
			stop := make(chan struct{})
			trickling := make(chan struct{})
			go func() {
				defer close(trickling)
				for {
					if _, err := p.Write([]byte{0}); err != nil {
						return
					}
					select {
					case <-time.After(20 * time.Millisecond):
					case <-stop:
						return
					}
				}
			}()
			p.ended(t, c.name)
			close(stop)
			<-trickling
		})
	}
}

func mustWrite(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// opens is a client that asks for spec and, with "start", starts it.
func opens(spec measurement.Spec, then string) func(*testing.T, *badPeer) {
	return func(t *testing.T, p *badPeer) {
		if _, err := p.open(spec, 0); err != nil {
			t.Fatal(err)
		}
		if then == "start" {
			p.start(t)
		}
	}
}

// reaches is a client that asks for spec and is there over UDP, too.
func reaches(target netip.AddrPort, spec measurement.Spec) func(*testing.T, *badPeer) {
	return func(t *testing.T, p *badPeer) {
		ready, err := p.open(spec, 0)
		testutil.OK(t, err)
		u, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
		testutil.OK(t, err)
		defer u.Close()
		hello := make([]byte, datagram.HeaderBytes)
		datagram.PutHeader(hello, ready.Cookie, datagram.Hello)
		hello[datagram.SequenceOffset+3] = byte(ready.UDPFlow)
		if _, err := u.Write(hello); err != nil {
			t.Fatal(err)
		}
		testutil.OK(t, protocol.Expect(p, protocol.TypeReached, protocol.MaxControl, nil))
	}
}

// Tests of one address leave room for those of others, of every resource.
func TestOneAddressLeavesRoom(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{MaxTests: 6, MaxConnections: 60})
	var held []*badPeer
	refusedAt := -1
	for i := range 6 {
		p := dialBad(t, target, "127.0.0.2")
		if _, err := p.open(longRR, 0); err != nil {
			if !strings.Contains(err.Error(), "your address may have 0 more") || session.ReasonOf(err) != probe.Limit {
				t.Fatalf("test %d: %v", i+1, err)
			}
			refusedAt = i
			break
		}
		held = append(held, p)
	}
	if refusedAt != 4 {
		t.Errorf("one address was refused at test %d of 6, want 5", refusedAt+1)
	}
	mustServe(t, target, "with the tests of another address")
	for _, p := range held {
		_ = p.Close()
	}
}

// Silent connections push each other out, and nobody else.
func TestSilenceIsPushedOut(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{MaxConnections: 40})
	for range 60 {
		dialBad(t, target, "127.0.0.2")
	}
	mustServe(t, target, "beside 60 silent connections where 10 may wait")
	mustServe(t, target, "and again")
}

// A rate that was not announced is paced where this end or an honest client sends,
// and ends the test of a client that sends all the same.
func TestRateOfATestIsBounded(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const limit = 4e7
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: limit}})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, Direction: measurement.Receive, Duration: 1, PacketBytes: 500},
		{Kind: measurement.TCP, Direction: measurement.Receive, Duration: 1, Flows: 2},
		{Kind: measurement.UDP, Direction: measurement.Send, Duration: 1, PacketBytes: 500},
		{Kind: measurement.TCP, Direction: measurement.Send, Duration: 1, Flows: 2},
	} {
		var out measurement.Outcome
		testutil.Longer(t, func(factor float64) string {
			spec.Duration = measurement.Seconds(factor)
			var err error
			if out, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil); err != nil {
				return err.Error() // also that a busy machine sent nothing
			}
			if out.Metrics["goodput_bits_per_second"] == 0 {
				return "nothing arrived"
			}
			return ""
		})
		// Headers and a first burst come on top: the kernel paces by the packet.
		if got := out.Metrics["goodput_bits_per_second"]; got > 2*limit {
			t.Errorf("%s %s: %.0f bit/s where a server allows %.0f", spec.Kind, spec.Direction, got, limit)
		}
		if !slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "--max-rate") }) {
			t.Errorf("%s %s: nothing is said of the server's bound: %q", spec.Kind, spec.Direction, out.Facts)
		}
	}
	// A connection whose loop does not run for two seconds, on a busy machine, is
	// ended by force and told nothing.
	testutil.Longer(t, func(float64) string {
		p := dialBad(t, target, "127.0.0.1")
		spec := longRR
		spec.RequestBytes, spec.ResponseBytes = 1<<16, 1
		_, err := p.open(spec, 0)
		testutil.OK(t, err)
		p.start(t)
		request := make([]byte, 1<<16)
		go func() {
			for {
				if _, err := p.Write(request); err != nil {
					return
				}
				time.Sleep(time.Millisecond) // 13 times as fast as is allowed
			}
		}()
		if said := p.ended(t, "too fast"); !strings.Contains(said, "--max-rate") {
			return fmt.Sprintf("a client that is too fast is told %.200q", strings.TrimLeft(said, "\x00"))
		}
		return ""
	})
}

// What a client says at the end of a flow is short: the server keeps nothing longer for any of
// thousands.
func TestLastWordsOfAClientAreShort(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		for _, kind := range []protocol.Type{protocol.TypeError, protocol.TypeReady} {
			p := dialBad(t, target, "127.0.0.1")
			spec := tinyTCP
			spec.Direction, spec.Duration = direction, 600
			_, err := p.open(spec, 0)
			testutil.OK(t, err)
			p.start(t)
			long := make([]byte, 64<<10)
			protocol.PutHeader(long, kind, protocol.MaxControl)
			_, err = p.Write(long)
			testutil.OK(t, err)
			p.ended(t, fmt.Sprintf("%s, a frame of type %#x and a MiB", direction, kind))
		}
	}
}

// Only one connection of a test samples the host, and only if it asks.
func TestOneSamplerPerTest(t *testing.T) {
	test := &session.Test{Meter: session.NewCounts(session.TellCount).NewMeter(session.Client{})}
	samples := func(asked bool) (bool, session.HostSeries) {
		h := (&session.Flow{HostSeries: asked, Test: test}).SampleHost(time.Now())
		return h.Result() != nil, h
	}
	if ok, _ := samples(false); ok {
		t.Error("a connection samples that did not ask")
	}
	first, h := samples(true)
	if second, _ := samples(true); !first || second {
		t.Error("not just the first that asks samples")
	}
	h.End()
	again, h := samples(true)
	if !again {
		t.Error("nobody samples after the first has left")
	}
	h.End()
}

// A panic in one connection ends that connection, and its stack is logged.
func TestPanicEndsOneConnection(t *testing.T) {
	var log strings.Builder
	s, err := probe.NewServer(probe.ServerOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	testutil.OK(t, err)
	p := dialBad(t, servertest.Serve(t, probe.ServerOptions{}), "127.0.0.1")
	s.Conclude(p.Conn.(*net.TCPConn), session.OnFreshStack(func() error { panic(fmt.Sprintf("%s of a test", "fault")) }))
	if got := log.String(); !strings.Contains(got, "fault of a test") || !strings.Contains(got, "badpeer_test.go") {
		t.Errorf("the log says %q", got)
	}
	if got := s.Stats().Refused["panic"]; got != 1 {
		t.Errorf("%d panics are counted", got)
	}
}
