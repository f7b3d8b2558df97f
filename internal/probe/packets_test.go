package probe

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestRunPackets(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP},
		{Kind: measurement.UDP, PacketBytes: 1400},
		{Kind: measurement.UDP, PacketBytes: 1400, GSO: measurement.Off, GRO: measurement.Off, Direction: measurement.Receive},
		{Kind: measurement.UDP, PacketBytes: 1400, RateBitsPerSecond: 1e8, Direction: measurement.Receive, Flows: 3},
		{Kind: measurement.PPS},
		{Kind: measurement.PPS, Flows: 2},
	} {
		t.Run(fmt.Sprintf("%s %s %d %d", spec.Kind, spec.Direction, spec.PacketBytes, spec.Flows), func(t *testing.T) {
			spec.Duration, spec.MaxWarmup = 0.3, 0.05
			out, err := Run(testContext(t), Request{ID: "t", Spec: spec, Target: target, Token: testToken}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range out.Metrics {
				t.Logf("%s %g", k, v)
			}
			t.Log(out.Effective, out.Facts, out.Flows)
		})
	}
}
