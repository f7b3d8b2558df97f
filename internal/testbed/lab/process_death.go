package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/testbed"
)

// deathGrace is how long after a failed test is waited for the news that a
// process of the lab died. The kernel closes a dying process's connections
// before it tells the parent (do_exit in kernel/exit.c), so a test often fails
// before the lab knows why.
const deathGrace = 500 * time.Millisecond

// awaitDeath returns when the lab broke, or did not within deathGrace.
func (l *Lab) awaitDeath(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deathGrace)
	defer cancel()
	select {
	case <-l.lab.Done():
	case <-ctx.Done():
	}
}

// blame says of a lab that broke which hop or endpoint died, and whose fault it is.
func (l *Lab) blame(err error) *testbed.Fault {
	death, known := errors.AsType[*lab.Death](err)
	if !known {
		return &testbed.Fault{Err: fmt.Errorf("the lab broke: %w", err)}
	}
	fault := &testbed.Fault{Paths: l.struck(death), Err: fmt.Errorf("the lab broke: %w", err)}
	if len(fault.Paths) == 0 && l.isEnd(death) {
		fault.Ends = []string{death.Node}
	}
	if who := l.victim(death); who != "" {
		fault.Err = fmt.Errorf("%s died: %w", who, err)
	}
	return fault
}

// isEnd says that the agent of an end of a pair died.
func (l *Lab) isEnd(d *lab.Death) bool {
	for _, p := range l.order {
		for k := range max(len(p.Pairs), 1) {
			if at := p.Of(k); d.Interface == "" && (d.Node == at.SourceNode || d.Node == at.DestinationNode) {
				return true
			}
		}
	}
	return false
}

// struck are the paths that a process was part of as a hop or a link. The ends of a
// path are instruments: none is struck by their death.
func (l *Lab) struck(d *lab.Death) (paths []string) {
	var sharing []string
	for _, p := range l.order {
		base, _ := l.laid(cmp.Or(p.VariantOf, p.Name)) // whose nodes it has
		if crosses(base, p, d) {
			paths = append(paths, p.Name)
		}
		if d.Interface != "" && slices.ContainsFunc(base.HopNodes, func(h lab.HopNode) bool { return h.Node == d.Node }) {
			sharing = append(sharing, p.Name)
		}
	}
	if len(paths) == 0 {
		return sharing // a link of one direction, say
	}
	return paths
}

// crosses says whether packets of p, which has the nodes of base and bypasses some,
// cross the link or the node of which a process died.
func crosses(base, p lab.Path, d *lab.Death) bool {
	passes := func(node string) bool {
		return slices.ContainsFunc(p.HopNodes, func(h lab.HopNode) bool { return h.Node == node })
	}
	if d.Interface == "" {
		return passes(d.Node)
	}
	first := len(base.HopNodes) == 0 || passes(base.HopNodes[0].Node) // is not bypassed
	for k := range max(len(base.Pairs), 1) {
		if at := base.Of(k); d.Address == at.Source || at.Outer != nil && d.Address == at.Outer.Source {
			return first
		}
	}
	if h := base.Leading; h != nil && h.Node == d.Node && slices.Contains(h.Bypasses, d.Interface) {
		return !first
	}
	for i, h := range base.HopNodes {
		if h.Node != d.Node || !h.Leads(d.Interface) || !passes(h.Node) {
			continue
		}
		next := slices.IndexFunc(base.HopNodes[i:], func(n lab.HopNode) bool { return n.Hop != h.Hop })
		straight := next < 0 || passes(base.HopNodes[i+next].Node)
		return straight == (h.Interface == d.Interface)
	}
	return false
}

// victim is what the experiment calls the place where a process died, empty
// where it has no name for it.
func (l *Lab) victim(d *lab.Death) string {
	for _, p := range l.order {
		if p.VariantOf != "" {
			continue // its hops are those of that path
		}
		if d.Interface != "" && (d.Address == p.Source || p.Outer != nil && d.Address == p.Outer.Source) {
			return fmt.Sprintf("the first link of path %s", p.Name)
		}
		for i, b := range p.Backends {
			if i > 0 && d.Node == b.Node {
				return fmt.Sprintf("back end %d of path %s", i+1, p.Name)
			}
		}
		if who := hopAt(p, d); who != "" {
			return who
		}
		if d.Interface == "" && (d.Node == p.SourceNode || d.Node == p.DestinationNode) {
			return "endpoint " + d.Node
		}
	}
	return ""
}

// hopAt is the hop of a path at whose node, or on whose link, a process died.
func hopAt(p lab.Path, d *lab.Death) string {
	for _, h := range p.HopNodes {
		switch {
		case h.Node != d.Node || d.Interface != "" && h.Interface != d.Interface:
		case h.Instance > 0 && d.Interface != "":
			return fmt.Sprintf("hop %s of path %s (instance %d)", h.Hop, p.Name, h.Instance)
		default:
			return fmt.Sprintf("hop %s of path %s", h.Hop, p.Name)
		}
	}
	return ""
}
