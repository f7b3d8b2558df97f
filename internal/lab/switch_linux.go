package lab

import (
	"context"
	"fmt"

	"github.com/hopbench/hopbench/internal/idps"
)

// Switch brings the nodes of a path into its state, whatever their state was.
// Packets that are under way arrive; connections go on over the other way.
func (l *Lab) Switch(ctx context.Context, path string) error {
	state := l.topology.state(path)
	if state == nil {
		return l.topology.unknownState(path)
	}
	if _, err := l.request(ctx, message{Op: opSwitch, Path: path}, nil, nil); err != nil {
		return fmt.Errorf("switch to path %s: %w", path, err)
	}
	for _, m := range state.Modes {
		if err := l.SetMode(ctx, m.Node, idps.Mode(m.Mode)); err != nil {
			return fmt.Errorf("switch to path %s: %w", path, err)
		}
	}
	return nil
}

func (s *supervisor) answerSwitch(m message) {
	answer := message{ID: m.ID}
	if err := s.switchTo(m.Path); err != nil {
		answer.Error = err.Error()
	}
	s.reply(answer)
}

// switchTo replaces the routes that the state of a path is about. The kernel
// replaces each in one step, so that there is a route at any moment, and has
// connections look for theirs again.
func (s *supervisor) switchTo(path string) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	state := s.build.Topology.state(path)
	if state == nil {
		return s.build.Topology.unknownState(path)
	}
	for _, r := range state.Routes {
		s.builder.mu.Lock()
		n := s.builder.nodes[r.Node]
		s.builder.mu.Unlock()
		if n == nil {
			return fmt.Errorf("the lab has no node %q", r.Node)
		}
		if err := n.replaceRoute(r.Route); err != nil {
			return fmt.Errorf("route of %s to %s over %s: %w", r.Node, r.Route.Destination, r.Route.Interface, err)
		}
	}
	return nil
}

// replaceRoute adds a route in the place of the one to the same destination.
func (n *node) replaceRoute(r Route) error {
	link, err := n.handle.LinkByName(r.Interface)
	if err != nil {
		return fmt.Errorf("find the interface: %w", err)
	}
	route := kernelRoute(r, n.spec.CongestionControl, link.Attrs().Index)
	return n.handle.RouteReplace(&route)
}
