package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// A gateway that lets as many flows pass as a test is said to need lets the test pass.
func TestFlowLimitOfATest(t *testing.T) {
	specs := []measurement.Spec{
		{Kind: measurement.TCP, Flows: 4},
		{Kind: measurement.TCP, Flows: 2, Direction: measurement.Both},
		{Kind: measurement.UDP, Flows: 4, RateBitsPerSecond: 4e6},
		{Kind: measurement.UDP, Flows: 2, RateBitsPerSecond: 4e6, Direction: measurement.Receive},
		{Kind: measurement.PPS, RateBitsPerSecond: 1e6},
		{Kind: measurement.RR, Protocol: measurement.OverTCP},
		{Kind: measurement.RR, Protocol: measurement.OverUDP},
		{Kind: measurement.Load, Flows: 2},
		{Kind: measurement.MTU},
		{Kind: measurement.FTP, Flows: 2, FileBytes: 1e6},
	}
	var paths strings.Builder
	limit := map[bool]func(measurement.Spec) int{false: kind.TrackedFlows, true: kind.FlowsBelowVXLAN}
	tunnel := map[bool]string{true: "tunnel: {type: vxlan}, "}
	plain := len(specs)
	specs = append(specs, measurement.Spec{Kind: measurement.TCP, Flows: 4, PacingBitsPerSecond: 1e6}, specs[2], specs[6])
	for i := range specs {
		s := &specs[i]
		if s.Kind != measurement.MTU && s.Kind != measurement.FTP {
			s.Duration, s.MaxWarmup = 0.2, 0.05
		}
		*s = s.Defaults()
		fmt.Fprintf(&paths, "  - {name: p%d, %shops: [{type: vnet-gateway, name: gw, flow_limit: %d, rate: 20Mbit}]}\n", i, tunnel[i >= plain], limit[i >= plain](*s))
	}
	l := labOf(t, paths.String())
	for i, s := range specs {
		t.Run(fmt.Sprintf("%d %s", i, s.Kind), func(t *testing.T) { l.measure(t, fmt.Sprintf("p%d", i), s) })
	}
}
