// Package plan turns a topology into the ordered list of operations that build
// it. It is pure, and a plan is readable as text.
package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// Plan is the ordered list of operations that build a topology.
type Plan []Operation

// String is the plan as text, one operation per line.
func (p Plan) String() string {
	var b strings.Builder
	for _, o := range p {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Of lists the operations that build t. It fails when t is not valid.
func Of(t topology.Topology) (Plan, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	var plan Plan
	add := func(ops ...Operation) { plan = append(plan, ops...) }
	nodes := make(map[string]topology.Node, len(t.Nodes))
	for _, n := range t.Nodes {
		nodes[n.Name] = n
		add(CreateNode{n})
	}
	for _, n := range t.Nodes {
		add(nodeSysctls(n)...)
	}
	meters, joins := sharedMeters(t)
	add(meters...)
	for i, l := range t.Links {
		add(AddLink{i, l})
	}
	add(joins...)
	for _, n := range t.Nodes {
		for _, tunnel := range n.Tunnels {
			add(AddTunnel{n.Name, tunnel})
		}
	}
	for i, l := range t.Links {
		for _, e := range []topology.End{l.A, l.B} {
			if e.Switch != "" {
				add(JoinSwitch{i, e})
			}
		}
	}
	for _, l := range t.Links {
		for _, e := range []topology.End{l.A, l.B} {
			n := nodes[e.Node]
			subnet := addressOf(n, e.Interface, e.Address)
			add(subnet[0])
			if e.EgressBitsPerSecond > 0 && !n.ShareEgress {
				bucket := EgressBucket(e.EgressBitsPerSecond, l.EffectiveMTU())
				if n.Forward {
					bucket = HopBucket(e.EgressBitsPerSecond, l.EffectiveMTU())
				}
				add(MeterRate{e.Node, e.Interface, bucket})
			}
			add(subnet[1:]...)
		}
	}
	for _, n := range t.Nodes {
		for _, tunnel := range n.Tunnels {
			add(addressOf(n, tunnel.Interface, tunnel.Address)...)
		}
	}
	routes := t.Routes()
	var functions []AddFunction // that do not decide where flows go
	for _, n := range t.Nodes {
		for _, r := range routes[n.Name] {
			add(AddRoute{n.Name, r, n.CongestionControl})
		}
		for row, function := range n.Functions.All() {
			if o := (AddFunction{n.Name, function, row}); row < filter.Routing {
				add(o)
			} else {
				functions = append(functions, o)
			}
		}
	}
	slices.SortStableFunc(functions, func(a, b AddFunction) int { return a.row - b.row })
	for _, o := range functions {
		add(o)
	}
	for i, l := range t.Links {
		if l.Emulation != nil {
			add(RunLink{i, l})
		}
	}
	for _, n := range t.Nodes {
		if n.Agent {
			add(RunAgent{n.Name})
		}
	}
	return plan, nil
}

// addressOf are the operations that give an interface of n its address, and, for
// the node's congestion control, the route to its subnet.
func addressOf(n topology.Node, name string, address netip.Prefix) []Operation {
	own := n.CongestionControl != ""
	ops := []Operation{SetAddress{Node: n.Name, Interface: name, Address: address, NoPrefixRoute: own}}
	if own {
		r := topology.Route{Destination: address.Masked(), Interface: name, Source: address.Addr()}
		ops = append(ops, AddRoute{n.Name, r, n.CongestionControl})
	}
	return ops
}

// sharedMeters are the operations that make the shared meters, and those that
// join the interfaces to them.
func sharedMeters(t topology.Topology) (meters, joins []Operation) {
	ends := topology.SharedEgress(t)
	for _, n := range t.Nodes {
		if !n.ShareEgress || len(ends[n.Name]) == 0 {
			continue
		}
		largest := slices.MaxFunc(ends[n.Name], func(a, b topology.SharedEnd) int { return a.MTU - b.MTU }).MTU
		meter := ShareEgress{Node: n.Name, Bucket: EgressBucket(ends[n.Name][0].EgressBitsPerSecond, largest)}
		for _, e := range ends[n.Name] {
			meter.Interfaces = append(meter.Interfaces, e.Interface)
			joins = append(joins, JoinEgress{n.Name, e.Interface, e.Link, e.MTU, EgressBucket(e.EgressBitsPerSecond, e.MTU)})
		}
		meters = append(meters, meter)
	}
	return meters, joins
}
