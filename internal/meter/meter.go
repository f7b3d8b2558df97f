// Package meter reads what the hops of real networks count of themselves: from an agent
// on the appliance, from Prometheus, by SNMP, from a file. It has them read while a trial
// goes on, and puts what they said on the trial's axis.
package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Timing is what is known of the moment at which a source counted.
type Timing int

// The timings.
const (
	// Asked is of counters that are read when they are asked for.
	Asked Timing = iota
	// Dated is of a source that says when it counted.
	Dated
	// Seen is of one that counted at some moment before, which it does not tell.
	Seen
)

// Reading is what a source says of a hop.
type Reading struct {
	// Taken is when that was, on this process's clock; of a Seen one, when it was asked.
	Taken  time.Time
	Timing Timing
	// Totals are since some moment: only differences mean anything. At is not set.
	Totals measurement.HopSample
}

// Meter reads the counters of one hop. It is read by one goroutine at a time.
type Meter interface {
	// Read asks the source. It does not outlast ctx by more than a moment.
	Read(ctx context.Context) (Reading, error)
	// Interval is the least time between two readings: that of what it costs the hop.
	Interval() time.Duration
	Close() error
}

// Counter is the agent of an appliance.
type Counter interface {
	Counters(ctx context.Context, name string) (agent.Counters, error)
}

// newMeter is the meter of a hop, which nobody has been asked for yet. The agent of an
// endpoint is looked up when it is read.
func newMeter(hop inventory.Hop, counter func(endpoint string) (Counter, error)) (Meter, error) {
	switch {
	case hop.Agent != nil:
		return &appliance{*hop.Agent, counter}, nil
	case hop.Prometheus != nil:
		return newPrometheus(*hop.Prometheus)
	case hop.SNMP != nil:
		return &interfaceMIB{SNMPMeter: *hop.SNMP}, nil
	case hop.CSV != nil:
		return &table{hop.CSV.File}, nil
	}
	return nil, errors.New("it has no source of its figures; give it one of agent, prometheus, snmp, csv")
}

// checkTotal says why a number is no total.
func checkTotal(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return fmt.Errorf("%v is no total", v)
	}
	return nil
}

var errEmpty = errors.New("it is empty")
