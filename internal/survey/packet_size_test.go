package survey

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// withMTU has the path MTU test say so much.
func (p path) withMTU(forward, reverse, ipHeader int, limit string) path {
	return func(test result.TestInfo) Step {
		s := p(test)
		if test.Name == "mtu" {
			s.Trial.Metrics = measurement.Metrics{"path_mtu_bytes": float64(forward)}
			if reverse > 0 {
				s.Trial.Metrics["reverse_path_mtu_bytes"] = float64(reverse)
			}
			s.Trial.Effective = map[string]string{"path_mtu_limit": limit, "ip_header_bytes": fmt.Sprint(ipHeader)}
		}
		return s
	}
}

// Once a black hole is found, all that comes later fits through it, and the profile goes
// to its end; where routers say what they carry, nothing is bounded.
func TestProfileFitsThePath(t *testing.T) {
	for name, c := range map[string]struct {
		forward, reverse, ipHeader int
		limit                      string
		mss, packet                int
	}{
		"whole":               {1500, 1500, 20, measurement.MTUSearch, 0, 0},
		"a router says so":    {1400, 1400, 20, measurement.MTURouter, 0, 0},
		"black hole":          {1400, 1400, 20, measurement.MTUBlackHole, 1360, 1372},
		"black hole, IPv6":    {1400, 1400, 40, measurement.MTUBlackHole, 1340, 1352},
		"narrower back":       {1400, 1300, 20, measurement.MTUBlackHole, 1260, 1372},
		"narrower back alone": {1500, 1300, 20, measurement.MTUSearch, 1260, 0},
		"nothing back":        {1400, 0, 20, measurement.MTUBlackHole, 1360, 1372},
	} {
		t.Run(name, func(t *testing.T) {
			// What does not fit does not get through.
			through := func(test result.TestInfo) Step {
				s := perFlow(1e9, 3e9).withMTU(c.forward, c.reverse, c.ipHeader, c.limit)(test)
				if test.Spec.Kind == measurement.TCP && test.Spec.MSSBytes != c.mss {
					s.Trial.Gate.Passed = false
				}
				return s
			}
			done := take(t, Options{}, through)
			var names []string
			for _, s := range done {
				names = append(names, s.Test.Name)
				mss, packet := c.mss, 0
				switch s.Test.Spec.Kind {
				case measurement.Trace, measurement.MTU:
					mss = 0
				case measurement.UDP:
					packet = c.packet
				}
				if got := s.Test.Spec; got.MSSBytes != mss || got.PacketBytes != packet {
					t.Errorf("%s: segments of %d bytes, packets of %d, want %d and %d", s.Test.Name, got.MSSBytes, got.PacketBytes, mss, packet)
				}
			}
			if got, want := strings.Join(names, " "), "path mtu latency flows-1 flows-4 flows-16 flows-4-receive load udp"; got != want {
				t.Errorf("tests %s, want %s", got, want)
			}
			if reason := FitReason(done); strings.Contains(reason, fmt.Sprintf("(-M %d)", c.mss)) != (c.mss > 0) {
				t.Errorf("said: %q", reason)
			}
		})
	}
}
