package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// probe tries every feature in one node of the lab.
func (s *supervisor) probe(node string) (found message.Features, err error) {
	n, err := s.builder.Node(node)
	if err != nil {
		return found, err
	}
	found.Found, err = n.Probe()
	found.Facts = s.builder.Facts()
	return found, err
}

func (s *supervisor) outerPorts(r message.OuterPortsRequest) ([]uint16, error) {
	n, err := s.builder.Node(r.Node)
	if err != nil {
		return nil, err
	}
	return n.OuterPorts(r.Interface, r.Port)
}

// scale makes nodes spread new flows over so many ways.
func (s *supervisor) scale(r message.ScaleRequest) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	for _, name := range r.Nodes {
		n, err := s.builder.Node(name)
		if err == nil {
			err = n.Rescale(r.Instances)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget makes limits of flows in nodes count anew.
func (s *supervisor) forget(nodes []string) error {
	for _, name := range nodes {
		n, err := s.builder.Node(name)
		if err == nil {
			err = n.ForgetFlows()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// switchTo replaces the routes that the state of a path is about. There is a
// route at any moment, and the kernel has connections look for theirs again.
func (s *supervisor) switchTo(path string) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	state := s.build.Topology.State(path)
	if state == nil {
		return s.build.Topology.UnknownState(path)
	}
	for _, r := range state.Routes {
		n, err := s.builder.Node(r.Node)
		if err == nil {
			err = n.ReplaceRoute(r.Route)
		}
		if err != nil {
			return fmt.Errorf("route of %s to %s over %s: %w", r.Node, r.Route.Destination, r.Route.Interface, err)
		}
	}
	return s.forgetPathMTUs()
}

// forgetPathMTUs has the hosts learn the MTU of a path that was switched anew: a hop that is
// not on it any more may have had a smaller one.
func (s *supervisor) forgetPathMTUs() error {
	for _, spec := range s.build.Topology.Nodes {
		if spec.Forward {
			continue
		}
		n, err := s.builder.Node(spec.Name)
		if err == nil {
			err = n.ForgetPathMTUs()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // of a kernel that keeps it from labs
			return fmt.Errorf("node %s: forget the MTUs of paths: %w", spec.Name, err)
		}
	}
	return nil
}

// counters are those of the nodes that are selected and of the links at them.
func (s *supervisor) counters(selected topology.Selection) (message.Counters, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	var all message.Counters
	for _, spec := range s.build.Topology.Nodes {
		if !selected.Node(spec.Name) {
			continue
		}
		n, err := s.builder.Node(spec.Name)
		if err != nil {
			return all, errors.New("the lab is not up yet")
		}
		counters, err := n.Counters()
		if err != nil {
			return all, fmt.Errorf("node %s: %w", spec.Name, err)
		}
		all.Nodes = append(all.Nodes, counters)
	}
	for i, l := range s.build.Topology.Links {
		if !selected.End(l.A) && !selected.End(l.B) {
			continue
		}
		s.mu.Lock()
		process := s.links[i]
		s.mu.Unlock()
		if process == nil {
			continue
		}
		answer, err := process.ask(message.Message{Verb: message.Count})
		var counters message.LinkCounters
		if err == nil {
			counters, err = message.Body[message.LinkCounters](answer)
		}
		if err != nil {
			return all, fmt.Errorf("link emulator %s: %w", l.Name(), err)
		}
		counters.A, counters.B = l.A, l.B
		all.Links = append(all.Links, counters)
	}
	return all, nil
}

// recordedSysctls decide what TCP does in a node, so a result records them.
var recordedSysctls = []string{
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
	"net.ipv4.tcp_window_scaling",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_sack",
	"net.ipv4.tcp_ecn",
	"net.ipv4.tcp_no_metrics_save",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.ping_group_range",
}

// environment reads back what is in force in the nodes that run agents. A value
// that differs between them stands under "name@node" for each.
func (s *supervisor) environment() map[string]string {
	env := make(map[string]string)
	values := make(map[string]map[string]string) // key, node
	record := func(key, node, value string) {
		if values[key] == nil {
			values[key] = make(map[string]string)
		}
		values[key][node] = value
	}
	for _, spec := range s.build.Topology.Nodes {
		n, err := s.builder.Node(spec.Name)
		if err != nil {
			continue // the lab did not come up
		}
		if table := spec.Functions.Filter; table != nil && table.Tracks() {
			// Only the host's own namespace may set it.
			err := n.Within(func() error {
				limit, err := filter.ReadSysctl(filter.ConnectionMax)
				if err == nil {
					record(filter.ConnectionMax, spec.Name, limit)
				}
				return err
			})
			if err != nil {
				s.builder.AddFact("node %s: the limit of its connection table cannot be read: %v", spec.Name, err)
			}
		}
		if !spec.Agent {
			continue
		}
		err = n.Within(func() error {
			algorithm, err := filter.ReadSysctl(plan.DefaultCongestion)
			switch {
			case err != nil:
				algorithm = spec.CongestionControl
			case spec.CongestionControl != "" && algorithm != spec.CongestionControl:
				algorithm = fmt.Sprintf("%s (by route; the namespace's default is %s)", spec.CongestionControl, algorithm)
			}
			record(plan.DefaultCongestion, spec.Name, algorithm)
			for _, key := range recordedSysctls {
				if value, err := filter.ReadSysctl(key); err == nil { // a kernel may lack one: then it is not recorded
					record(key, spec.Name, value)
				}
			}
			return nil
		})
		if err != nil {
			s.builder.AddFact("the settings of node %s could not be read: %v", spec.Name, err)
		}
	}
	for key, byNode := range values {
		if different := slices.Compact(slices.Sorted(maps.Values(byNode))); len(different) == 1 {
			env[key] = different[0]
			continue
		}
		for node, v := range byNode {
			env[key+"@"+node] = v
		}
	}
	return env
}
