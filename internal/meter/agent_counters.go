package meter

import (
	"context"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// appliance reads the counters of an appliance that has an agent.
type appliance struct {
	inventory.AgentMeter
	counter func(endpoint string) (Counter, error)
}

// Read asks the agent. The interface is the one towards the source, so that what it
// received goes to the destination.
func (a *appliance) Read(ctx context.Context) (Reading, error) {
	of, err := a.counter(a.Endpoint)
	if err != nil {
		return Reading{}, err
	}
	c, err := of.Counters(ctx, a.Interface)
	if err != nil {
		return Reading{}, fmt.Errorf("ask the agent of %s for the counters of %s: %w", a.Endpoint, a.Interface, err)
	}
	if c.Interface == nil {
		return Reading{}, fmt.Errorf("the agent of %s cannot tell the counters of %s", a.Endpoint, a.Interface)
	}
	r := Reading{Taken: c.Taken, Timing: Asked, Totals: measurement.HopSample{
		ForwardBytes: float64(c.Interface.ReceivedBytes), ForwardPackets: float64(c.Interface.ReceivedPackets),
		BackwardBytes: float64(c.Interface.SentBytes), BackwardPackets: float64(c.Interface.SentPackets),
		DroppedPackets: c.DroppedPackets, SoftnetSqueezes: c.SoftnetSqueezes,
		CPU: c.CPUBusy - c.SoftIRQ, KernelCPU: c.SoftIRQ,
	}}
	if c.Conntrack != nil {
		n := float64(c.Conntrack.Entries)
		r.Totals.Connections = &n
	}
	return r, nil
}

// Interval keeps what the agent does for it far below a thousandth of a processor.
func (a *appliance) Interval() time.Duration { return 250 * time.Millisecond }

func (a *appliance) Close() error { return nil }
