package cli

import (
	"context"
	"slices"

	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/fleet"
	"github.com/hopbench/hopbench/internal/testbed/hosts"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// testbedKind is what the commands do with a kind of testbed.
type testbedKind struct {
	name string // as result.Testbed has it
	// start is a file to start with, nil for a testbed that no file describes.
	start func() string
	// build makes the paths of a run ready to measure.
	build func(*session, context.Context) (testbed.Testbed, error)
	// look looks at what a testbed file names, without any load; nil looks at nothing.
	look func(context.Context, checked) ([]testbed.Finding, error)
	// samples says that its machines send what their flows count, for a database.
	samples bool
}

// testbedKinds has a row for every kind: the lab, and those of testbed files in their order.
func testbedKinds() []testbedKind {
	return []testbedKind{
		{name: result.TestbedLab, build: (*session).buildLab},
		{name: result.TestbedHosts, start: hosts.Start, build: (*session).reachHosts, look: lookAtHosts},
		{name: result.TestbedFleet, start: fleet.Start, build: (*session).reachFleet, look: lookAtQueue, samples: true},
	}
}

// testbedKindOf is the row of a kind, an empty one for a kind that there is not.
func testbedKindOf(name string) testbedKind {
	rows := testbedKinds()
	if i := slices.IndexFunc(rows, func(k testbedKind) bool { return k.name == name }); i >= 0 {
		return rows[i]
	}
	return testbedKind{}
}

// checked is a testbed file to be looked at.
type checked struct {
	file      string
	inventory *inventory.Inventory
	e         *experiment.Experiment // nil for none
	tell      live.Steps
}

// found tells a finding, as a fault where nothing can be measured before it is put right, and
// returns it.
func (c checked) found(f testbed.Finding) testbed.Finding {
	codes := map[testbed.Severity]event.Code{testbed.Wrong: event.Fault, testbed.Warning: event.Warning, testbed.Note: event.Note}
	c.tell.Tell(codes[f.Severity], f.String())
	return f
}
