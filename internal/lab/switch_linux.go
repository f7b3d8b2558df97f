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
	l.switching.Lock()
	defer l.switching.Unlock()
	l.setInForce(state.Of, "")
	if _, err := l.request(ctx, message{Op: opSwitch, Path: path}, nil, nil); err != nil {
		return fmt.Errorf("switch to path %s: %w", path, err)
	}
	for _, m := range state.Modes {
		if err := l.SetMode(ctx, m.Node, idps.Mode(m.Mode)); err != nil {
			return fmt.Errorf("switch to path %s: %w", path, err)
		}
	}
	l.setInForce(state.Of, path)
	return nil
}

// setInForce notes which path the nodes of one are in the state of, empty for
// none that is known.
func (l *Lab) setInForce(of, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inForce == nil {
		l.inForce = make(map[string]string)
	}
	l.inForce[of] = path
}

// SwitchedPaths are the paths that Switch knows, in the order of the experiment.
func (l *Lab) SwitchedPaths() []SwitchedPath {
	l.mu.Lock()
	defer l.mu.Unlock()
	var paths []SwitchedPath
	for _, s := range l.topology.States {
		now, switched := l.inForce[s.Of]
		if !switched {
			now = s.Of // as it is built
		}
		paths = append(paths, SwitchedPath{Name: s.Path, Of: s.Of, InForce: s.Path == now})
	}
	return paths
}

// SwitchedPathsOf lists the paths of a published lab that SwitchIn knows.
func SwitchedPathsOf(ctx context.Context, name string) ([]SwitchedPath, error) {
	w, err := join(name)
	if err != nil {
		return nil, err
	}
	answer, err := w.ask(ctx, message{Op: opPaths}, nil, nil)
	return answer.Switched, err
}

// SwitchIn is Switch in a lab that another process published.
func SwitchIn(ctx context.Context, name, path string) error {
	w, err := join(name)
	if err != nil {
		return err
	}
	_, err = w.ask(ctx, message{Op: opSwitch, Path: path}, nil, nil)
	return err
}

func (s *supervisor) answerSwitch(m message) {
	answer := message{ID: m.ID}
	if err := s.switchTo(m.Path); err != nil {
		answer.Error = err.Error()
	}
	s.reply(answer)
}

// switchTo replaces the routes that the state of a path is about. There is a
// route at any moment, and the kernel has connections look for theirs again.
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

// understudyMetric is that of a second route to a destination that is switched;
// the first has 0, which the kernel prefers.
const understudyMetric = 1 << 16

// replaceRoute adds a route in the place of the one to the same destination,
// and before that, one just like it with a larger metric. A packet whose lookup
// has found a route that is replaced before it is read (fib_dead in
// fib_table_lookup of net/ipv4/fib_trie.c) is passed on to the next in the
// list, and would be answered "unreachable" if there were none.
func (n *node) replaceRoute(r Route) error {
	link, err := n.handle.LinkByName(r.Interface)
	if err != nil {
		return fmt.Errorf("find the interface: %w", err)
	}
	for _, metric := range []int{understudyMetric, 0} {
		route := kernelRoute(r, n.spec.CongestionControl, link.Attrs().Index)
		route.Priority = metric
		if err := n.handle.RouteReplace(&route); err != nil {
			return err
		}
	}
	return nil
}
