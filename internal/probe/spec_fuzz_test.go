package probe

import (
	"encoding/json"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// FuzzSpec has a server decide on any JSON. What it allows is bounded in length,
// memory, threads and descriptors, by the spec alone, and can be made.
func FuzzSpec(f *testing.F) {
	for _, spec := range []measurement.Spec{
		tinyTCP, tinyRR, longRR,
		{Kind: measurement.TCP, Flows: 10_000, Direction: measurement.Both, Duration: 3000, WindowBytes: 1 << 20, PacingBitsPerSecond: 1e6, CopyPayload: true},
		{Kind: measurement.UDP, Flows: 1024, Direction: measurement.Receive, Duration: 1, RateBitsPerSecond: 1e9, PacketBytes: 1400},
		{Kind: measurement.PPS, Flows: 1, Direction: measurement.Send, Duration: 1, PacketBytes: 64, GSO: measurement.Off, GRO: measurement.Off},
		{Kind: measurement.CRR, Flows: 100, Duration: 1, RequestBytes: 1, ResponseBytes: 1 << 20},
		{Kind: measurement.FTP, Flows: 256, Direction: measurement.Receive, FileBytes: 1 << 30},
		{Kind: measurement.MTU, Timeout: 0.2},
		{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 1, IdleDuration: -100},
		{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 1, IdleDuration: 1e300},
	} {
		text, err := json.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	s, err := NewServer(ServerOptions{})
	if err != nil {
		f.Fatal(err)
	}
	control, packets := fuzzSockets(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec measurement.Spec
		if json.Unmarshal(text, &spec) != nil || s.allow(spec, 0) != nil {
			return
		}
		if length := s.lengthOf(spec); length <= 0 || length > s.opts.MaxDuration {
			t.Fatalf("a test of %v is allowed: %+v", length, spec)
		}
		bins, width := session.BinsOf(spec)
		if bins < 0 || bins > session.MaxBins || width <= 0 || time.Duration(bins)*width < session.Planned(spec) && spec.Kind != measurement.FTP && spec.Kind != measurement.MTU {
			t.Fatalf("%d bins of %v: %+v", bins, width, spec)
		}
		cost := kinds[spec.Kind].Cost(spec)
		if cost[admission.Tests] != 1 || cost[admission.Threads] < 0 || cost[admission.Threads] > maxThreads ||
			cost[admission.Descriptors] < 1 || cost[admission.Descriptors] > 4*session.MaxFlows || cost[admission.Bytes] < session.TestBytes || cost[admission.Bytes] > 16<<30 {
			t.Fatalf("%v is what it takes: %+v", cost, spec)
		}
		id := protocol.Identity{Session: "0123456789abcdef0123456789abcdef"}
		if test, err := s.enter(&session.Guard{}, id, netip.MustParseAddr("192.0.2.1"), spec); err == nil {
			s.leave(test, 0, nil)
		} else if session.ReasonOf(err) != session.Limit {
			t.Fatalf("an allowed test cannot begin: %v: %+v", err, spec)
		}
		if used, _ := s.budget.Used(); used != (admission.Cost{}) {
			t.Fatalf("%v is left: %+v", used, spec)
		}
		var pages packetPages
		defer func() {
			if err := pages.close(); err != nil {
				t.Error(err)
			}
		}()
		// The first makes what all flows share.
		if !makeOneFlow(t, s, spec, control, packets, &pages) {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		makeOneFlow(t, s, spec, control, packets, &pages)
		runtime.ReadMemStats(&after)
		// What the other flows take is the same; the host's own garbage is the slack.
		if made := int64(after.TotalAlloc-before.TotalAlloc) * int64(kinds[spec.Kind].MostConnections(spec)); made > cost[admission.Bytes]+int64(kinds[spec.Kind].MostConnections(spec))*(64<<10) {
			t.Fatalf("%d bytes are made for a test that is to take %d: %+v", made, cost[admission.Bytes], spec)
		}
	})
}

// fuzzSockets are a connection and a UDP socket that nobody listens to.
func fuzzSockets(f *testing.F) (control, packets *sockets.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	u, err := net.Dial("udp", ln.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	if control, err = sockets.Attach(c.(*net.TCPConn)); err != nil {
		f.Fatal(err)
	}
	if packets, err = sockets.DetachUDP(u.(*net.UDPConn)); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _, _, _ = control.Close(), packets.Close(), ln.Close() })
	return control, packets
}

// makeOneFlow makes a server's end of a flow, if its kind has one in bulk.
func makeOneFlow(t *testing.T, s *Server, spec measurement.Spec, control, packets *sockets.Conn, pages *packetPages) bool {
	w := session.ControlConn{Conn: control, Guard: &session.Guard{}}
	cookie := make([]byte, protocol.CookieBytes)
	switch {
	case spec.Kind == measurement.TCP && spec.Direction == measurement.Send:
		newReceiver(w, spec, s.servers[measurement.TCP].(*tcpServer).bulk.buffer(control, spec, 1))
	case spec.Kind == measurement.UDP || spec.Kind == measurement.PPS:
		if spec.Direction == measurement.Send {
			if _, err := newPacketReceiver(w, packets, spec, cookie); err != nil && session.ReasonOf(err) != session.Unsupported {
				t.Fatalf("%v: %+v", err, spec)
			}
			break
		}
		_, err := newPacketSender(w, packets, spec, cookie, pages)
		if err != nil && session.ReasonOf(err) != session.Unsupported && session.ReasonOf(err) != session.Failed {
			t.Fatalf("%v: %+v", err, spec)
		}
	default:
		return false
	}
	return true
}
