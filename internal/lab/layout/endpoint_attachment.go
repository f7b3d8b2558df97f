package layout

import (
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// attachment is the end of a path at an endpoint, by its software switch if that
// is so: as the path says, or else the endpoint. The first such path brings the
// node of the switch, whose name, with a dot, is not that of any hop or endpoint
// of an experiment.
func (l *layout) attachment(endpoint, name string, p experiment.Path) topology.End {
	e := topology.End{Node: endpoint, Interface: name, EgressBitsPerSecond: l.egress[endpoint]}
	bySwitch := l.e.Endpoints[indexOf(l.e.Endpoints, endpoint)].SoftwareSwitch
	if p.SoftwareSwitch != nil {
		bySwitch = *p.SoftwareSwitch
	}
	if !bySwitch {
		return e
	}
	e.Switch = endpoint + ".switch"
	if !slices.ContainsFunc(l.topology.Nodes, func(n topology.Node) bool { return n.Name == e.Switch }) {
		l.topology.Nodes = append(l.topology.Nodes, topology.Node{Name: e.Switch})
	}
	return e
}

// sharesEgress says whether an endpoint's interfaces have one meter. With a
// single path there is but one interface, and its own meter does.
func (l *layout) sharesEgress(i int) bool {
	endpoint := l.e.Endpoints[i]
	return endpoint.NICs > 1 && endpoint.EgressBitsPerSecond > 0 && len(l.e.Paths) > 1
}
