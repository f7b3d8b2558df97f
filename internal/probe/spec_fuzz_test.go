package probe

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// FuzzSpec has a server decide on any JSON. What it allows is bounded in length,
// memory, threads and descriptors, by the spec alone, and can be made.
func FuzzSpec(f *testing.F) {
	specs := []measurement.Spec{
		{Kind: measurement.RR, Protocol: measurement.OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1, Duration: 600},
		{Kind: measurement.TCP, Flows: 10_000, Direction: measurement.Both, Duration: 3000, WindowBytes: 1 << 20, PacingBitsPerSecond: 1e6, CopyPayload: true},
		{Kind: measurement.UDP, Flows: 1024, Direction: measurement.Receive, Duration: 1, RateBitsPerSecond: 1e9, PacketBytes: 1400},
		{Kind: measurement.PPS, Flows: 1, Direction: measurement.Send, Duration: 1, PacketBytes: 64, GSO: measurement.Off, GRO: measurement.Off},
		{Kind: measurement.CRR, Flows: 100, Duration: 1, RequestBytes: 1, ResponseBytes: 1 << 20},
		{Kind: measurement.FTP, Flows: 256, Direction: measurement.Receive, FileBytes: 1 << 30},
		{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 1, IdleDuration: -100},
		{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 1, IdleDuration: 1e300},
	}
	for _, k := range kind.All() {
		specs = append(specs, k.Defaults())
	}
	for _, spec := range specs {
		text, err := json.Marshal(spec)
		testutil.OK(f, err)
		f.Add(text)
	}
	s, err := NewServer(ServerOptions{})
	testutil.OK(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec measurement.Spec
		if json.Unmarshal(text, &spec) != nil || s.allow(spec, 0) != nil {
			return
		}
		if length := (Limits{MaxDuration: s.opts.MaxDuration}).length(spec); length <= 0 || length > s.opts.MaxDuration {
			t.Fatalf("a test of %v is allowed: %+v", length, spec)
		}
		bins, width := session.BinsOf(spec)
		if bins < 0 || bins > session.MaxBins || width <= 0 || time.Duration(bins)*width < session.Planned(spec) && spec.Kind != measurement.FTP && spec.Kind != measurement.MTU {
			t.Fatalf("%d bins of %v: %+v", bins, width, spec)
		}
		cost := kinds[spec.Kind].Cost(spec)
		if cost[admission.Tests] != 1 || cost[admission.Threads] < 0 || cost[admission.Threads] > maxThreads ||
			cost[admission.Descriptors] < 1 || cost[admission.Descriptors] > 4*MaxFlows || cost[admission.Bytes] < session.TestBytes || cost[admission.Bytes] > 16<<30 {
			t.Fatalf("%v is what it takes: %+v", cost, spec)
		}
		id := protocol.Identity{Session: "0123456789abcdef0123456789abcdef"}
		if test, err := s.enter(&session.Guard{}, id, netip.MustParseAddr("192.0.2.1"), protocol.Open{Spec: spec}); err == nil {
			s.leave(test, 0, nil)
		} else if session.ReasonOf(err) != Limit {
			t.Fatalf("an allowed test cannot begin: %v: %+v", err, spec)
		}
		if used, _ := s.budget.Used(); used != (admission.Cost{}) {
			t.Fatalf("%v is left: %+v", used, spec)
		}
	})
}
