package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
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

// blame says of a lab that broke which hop or endpoint died.
func (l *Lab) blame(err error) error {
	var death *lab.Death
	if errors.As(err, &death) {
		if who := l.victim(death); who != "" {
			return fmt.Errorf("%s died: %w", who, err)
		}
	}
	return fmt.Errorf("the lab broke: %w", err)
}

// victim is what the experiment calls the place where a process died, empty
// where it has no name for it.
func (l *Lab) victim(d *lab.Death) string {
	for _, p := range l.order {
		if p.VariantOf != "" {
			continue // its hops are those of that path
		}
		if d.Interface != "" && (d.Address == p.Source || p.Outer != nil && d.Address == p.Outer.Source) {
			return fmt.Sprintf("the first cable of path %s", p.Name)
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
