package session

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/thread"
)

// maxCPU bounds the numbers of CPUs: those of a cpu_set_t (CPU_SET(3)).
const maxCPU = 1024

// Placement is where the threads of the two ends of a test run. Without CPUs they
// run wherever their scheduler puts them.
type Placement struct {
	Name                string // a value of effective's placement
	Source, Destination []int  // CPUs
}

// place decides on which CPUs the ends of a test run that are on one host and
// whose threads may run on these CPUs. What only one of the two may use is that
// one's; if both may use the same, the lower half is the source's.
func place(colocate bool, source, destination []int) Placement {
	if len(source) == 0 || len(destination) == 0 {
		return Placement{Name: measurement.PlacementNone}
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
		return Placement{Name: measurement.PlacementSeparate}
	case colocate || len(both) == 1 && len(source) == 1 && len(destination) == 1:
		return Placement{measurement.PlacementSame, both[:1], both[:1]}
	case len(both) == 0:
		return Placement{Name: measurement.PlacementSeparate} // whoever started them has seen to it
	case len(onlyDestination) > 0:
		return Placement{measurement.PlacementSeparate, source, onlyDestination}
	case len(onlySource) > 0:
		return Placement{measurement.PlacementSeparate, onlySource, destination}
	}
	half := len(both) / 2
	return Placement{measurement.PlacementSeparate, both[:half], both[half:]}
}

// PlaceEnds decides for a client that has sent open.
func PlaceEnds(open protocol.Open) (Placement, error) {
	p := Placement{Name: measurement.PlacementNone}
	if !open.Spec.Placed() {
		return p, nil
	}
	if err := checkCPUs(open.CPUs); err != nil {
		return p, err
	}
	if id := hostinfo.HostID(); id != "" && id == open.HostID {
		p = place(open.Spec.Colocate, open.CPUs, thread.AllowedCPUs())
	}
	if open.Spec.Colocate && p.Name != measurement.PlacementSame {
		return p, Refusal(Unsupported, "both ends cannot run on one CPU as asked (colocate): they are on different hosts, have no CPU in common, or a system does not let threads be kept to CPUs")
	}
	return p, nil
}

func checkCPUs(cpus []int) error {
	if len(cpus) > maxCPU || slices.ContainsFunc(cpus, func(cpu int) bool { return cpu < 0 || cpu >= maxCPU }) {
		return fmt.Errorf("%w: CPUs are numbered from 0 to %d", protocol.ErrMalformed, maxCPU-1)
	}
	return nil
}

// PlacedBy is where a server that has sent ready put the threads of the client.
// One of an older version put nobody anywhere.
func PlacedBy(spec measurement.Spec, ready protocol.Ready) (Placement, error) {
	p := Placement{Name: ready.Placement, Source: ready.CPUs}
	if p.Name == "" {
		p.Name = measurement.PlacementNone
	}
	if spec.Colocate && p.Name != measurement.PlacementSame {
		return p, &Error{Op: "place the ends", Reason: Unsupported, Err: fmt.Errorf("the server's version cannot put both ends on one CPU (colocate)")}
	}
	known := []string{measurement.PlacementNone, measurement.PlacementSeparate, measurement.PlacementSame}
	if !slices.Contains(known, p.Name) {
		return p, fmt.Errorf("%w: placement %.20q", protocol.ErrMalformed, p.Name)
	}
	return p, checkCPUs(ready.CPUs)
}

// Facts tell that the ends share a CPU although nobody asked for it.
func (p Placement) Facts(spec measurement.Spec) []string {
	if p.Name == measurement.PlacementSame && !spec.Colocate {
		return []string{"both ends share the one CPU that they may use: latency is without the wake-up of another CPU"}
	}
	return nil
}

// Pinned runs f on the calling thread, which must be locked, and keeps that on some
// CPUs meanwhile; none are no bound.
func Pinned(cpus []int, f func() error) error {
	if len(cpus) == 0 {
		return f()
	}
	unpin, err := thread.Pin(cpus)
	if err != nil {
		// Whatever errno a filter of system calls gives: it is not the path's.
		return &Error{Op: fmt.Sprintf("keep the thread on CPUs %v", cpus), Reason: Local, Err: err}
	}
	defer unpin()
	return f()
}
