package lab

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
)

// attachment is the end of a path at an endpoint, by its software switch if that
// is so: as the path says, or else the endpoint. The first such path brings the
// node of the switch, whose name, with a dot, is not that of any hop or endpoint
// of an experiment.
func (l *layout) attachment(endpoint, name string, p experiment.Path) End {
	e := End{Node: endpoint, Interface: name, EgressBitsPerSecond: l.egress[endpoint]}
	bySwitch := l.e.Endpoints[indexOf(l.e.Endpoints, endpoint)].SoftwareSwitch
	if p.SoftwareSwitch != nil {
		bySwitch = *p.SoftwareSwitch
	}
	if !bySwitch {
		return e
	}
	e.Switch = endpoint + ".switch"
	if !slices.ContainsFunc(l.topology.Nodes, func(n Node) bool { return n.Name == e.Switch }) {
		l.topology.Nodes = append(l.topology.Nodes, Node{Name: e.Switch})
	}
	return e
}

// The interfaces of the switch that stands before the end of a link: the bridge,
// its port towards the node, and its port towards the link. Each link has a
// bridge of its own, as virtual networks on one host are apart: frames, and
// answers to ARP, of one path never come by another.
func switchBridge(link int) string   { return fmt.Sprintf("bridge%d", link) }
func switchNodePort(link int) string { return fmt.Sprintf("node%d", link) }
func switchLinkPort(link int) string { return fmt.Sprintf("link%d", link) }

// switchPorts are the operations that join the ends of links to their switches.
func switchPorts(t Topology) []Operation {
	var ops []Operation
	for i, l := range t.Links {
		for _, e := range []End{l.A, l.B} {
			if e.Switch != "" {
				ops = append(ops, Operation{
					Verb: JoinSwitch, Node: e.Switch, Link: i, Interface: switchBridge(i),
					text: fmt.Sprintf("%s:%s by %s, link by %s", e.Node, e.Interface, switchNodePort(i), switchLinkPort(i)),
				})
			}
		}
	}
	return ops
}

// switches checks the switches of a link's ends.
func (f *faults) switches(l Link, nodes map[string]bool) {
	for _, e := range []End{l.A, l.B} {
		switch {
		case e.Switch == "":
		case !nodes[e.Switch]:
			f.add("link end %s:%s: there is no node %q for its switch", e.Node, e.Interface, e.Switch)
		case e.Switch == l.A.Node || e.Switch == l.B.Node || l.A.Switch == l.B.Switch:
			f.add("link %s: the switch %s is an end of it, or that of both ends", l.name(), e.Switch)
		}
	}
}
