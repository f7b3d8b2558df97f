package probe

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// maxCPU bounds the numbers of CPUs: those of a cpu_set_t (CPU_SET(3)).
const maxCPU = 1024

// placement is where the threads of the two ends of a test run. Without CPUs they
// run wherever their scheduler puts them.
type placement struct {
	name                string // a value of effective's placement
	source, destination []int  // CPUs
}

// place decides on which CPUs the ends of a test run that are on one host and
// whose threads may run on these CPUs. What only one of the two may use is that
// one's; if both may use the same, the lower half is the source's.
func place(colocate bool, source, destination []int) placement {
	if len(source) == 0 || len(destination) == 0 {
		return placement{name: measurement.PlacementNone}
	}
	without := func(cpus, others []int) (rest []int) {
		for _, cpu := range cpus {
			if !slices.Contains(others, cpu) {
				rest = append(rest, cpu)
			}
		}
		return rest
	}
	onlySource, onlyDestination := without(source, destination), without(destination, source)
	both := without(source, onlySource)
	switch {
	case colocate && len(both) == 0:
		return placement{name: measurement.PlacementSeparate}
	case colocate || len(both) == 1 && len(source) == 1 && len(destination) == 1:
		return placement{measurement.PlacementSame, both[:1], both[:1]}
	case len(both) == 0:
		return placement{name: measurement.PlacementSeparate} // whoever started them has seen to it
	case len(onlyDestination) > 0:
		return placement{measurement.PlacementSeparate, source, onlyDestination}
	case len(onlySource) > 0:
		return placement{measurement.PlacementSeparate, onlySource, destination}
	}
	half := len(both) / 2
	return placement{measurement.PlacementSeparate, both[:half], both[half:]}
}

// placeEnds decides for a client that has sent open.
func placeEnds(open protocol.Open) (placement, error) {
	p := placement{name: measurement.PlacementNone}
	if !open.Spec.Placed() {
		return p, nil
	}
	if err := checkCPUs(open.CPUs); err != nil {
		return p, err
	}
	if id := hostinfo.HostID(); id != "" && id == open.HostID {
		p = place(open.Spec.Colocate, open.CPUs, sockets.AllowedCPUs())
	}
	if open.Spec.Colocate && p.name != measurement.PlacementSame {
		return p, refusal(Unsupported, "both ends cannot run on one CPU as asked (colocate): they are on different hosts, or have no CPU in common")
	}
	return p, nil
}

func checkCPUs(cpus []int) error {
	if len(cpus) > maxCPU || slices.ContainsFunc(cpus, func(cpu int) bool { return cpu < 0 || cpu >= maxCPU }) {
		return fmt.Errorf("%w: CPUs are numbered from 0 to %d", protocol.ErrMalformed, maxCPU-1)
	}
	return nil
}

// placedBy is where a server that has sent ready put the threads of the client.
// One of an older version put nobody anywhere.
func placedBy(spec measurement.Spec, ready protocol.Ready) (placement, error) {
	p := placement{name: ready.Placement, source: ready.CPUs}
	if p.name == "" {
		p.name = measurement.PlacementNone
	}
	if spec.Colocate && p.name != measurement.PlacementSame {
		return p, &Error{Op: "place the ends", Reason: Unsupported, Err: fmt.Errorf("the server's version cannot put both ends on one CPU (colocate)")}
	}
	known := []string{measurement.PlacementNone, measurement.PlacementSeparate, measurement.PlacementSame}
	if !slices.Contains(known, p.name) {
		return p, fmt.Errorf("%w: placement %.20q", protocol.ErrMalformed, p.name)
	}
	return p, checkCPUs(ready.CPUs)
}

// facts tell that the ends share a CPU although nobody asked for it.
func (p placement) facts(spec measurement.Spec) []string {
	if p.name == measurement.PlacementSame && !spec.Colocate {
		return []string{"both ends share the one CPU that they may use: latency is without the wake-up of another CPU"}
	}
	return nil
}

// pinned runs f on the calling thread, which must be locked, and keeps that on some
// CPUs meanwhile; none are no bound.
func pinned(cpus []int, f func() error) error {
	if len(cpus) == 0 {
		return f()
	}
	unpin, err := sockets.Pin(cpus)
	if err != nil {
		return fmt.Errorf("keep the thread on CPUs %v: %w", cpus, err)
	}
	defer unpin()
	return f()
}
