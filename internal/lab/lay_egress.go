package lab

import (
	"fmt"
	"strings"
)

// sharedDevice is the device that all that a node with a shared egress sends goes
// through, and sharedPort the name there of the device of a link, whose own
// name is that of the interface with the address.
const sharedDevice = "egress"

func sharedPort(link int) string { return fmt.Sprintf("port%d", link) }

// sharesEgress says whether an endpoint's interfaces have one meter. With a
// single path there is but one interface, and its own meter does.
func (l *layout) sharesEgress(i int) bool {
	endpoint := l.e.Endpoints[i]
	return endpoint.NICs > 1 && endpoint.EgressBitsPerSecond > 0 && len(l.e.Paths) > 1
}

// sharedEgress are, by node, the ends of links whose egress is metered together,
// each with its link.
func sharedEgress(t Topology) map[string][]sharedEnd {
	shares := make(map[string]bool)
	for _, n := range t.Nodes {
		shares[n.Name] = n.ShareEgress
	}
	ends := make(map[string][]sharedEnd)
	for i, l := range t.Links {
		if shares[l.A.Node] {
			ends[l.A.Node] = append(ends[l.A.Node], sharedEnd{l.A, i, l.B, l.mtu()})
		}
		if shares[l.B.Node] {
			ends[l.B.Node] = append(ends[l.B.Node], sharedEnd{l.B, i, l.A, l.mtu()})
		}
	}
	return ends
}

// sharedEnd is an end of a link at a node that shares its egress.
type sharedEnd struct {
	End
	link int
	peer End
	mtu  int
}

// sharedMeters are the operations that make the shared meters, and those that
// join the interfaces to them.
func sharedMeters(t Topology) (meters, joins []Operation) {
	ends := sharedEgress(t)
	for _, n := range t.Nodes {
		if !n.ShareEgress || len(ends[n.Name]) == 0 {
			continue
		}
		names := make([]string, len(ends[n.Name]))
		for i, e := range ends[n.Name] {
			names[i] = e.Interface
			joins = append(joins, Operation{Verb: JoinEgress, Node: n.Name, Interface: e.Interface, Link: e.link, MTU: e.mtu, bucket: egressBucket(e.EgressBitsPerSecond)})
		}
		meters = append(meters, Operation{
			Verb: ShareEgress, Node: n.Name, Interface: sharedDevice,
			bucket: egressBucket(ends[n.Name][0].EgressBitsPerSecond), text: strings.Join(names, ", "),
		})
	}
	return meters, joins
}

// shared checks the nodes that share their egress.
func (f *faults) shared(t Topology) {
	for node, ends := range sharedEgress(t) {
		for _, e := range ends {
			if e.EgressBitsPerSecond == 0 || e.EgressBitsPerSecond != ends[0].EgressBitsPerSecond {
				f.add("node %s shares its egress, but %s has %g bit/s and %s has %g", node,
					ends[0].Interface, ends[0].EgressBitsPerSecond, e.Interface, e.EgressBitsPerSecond)
			}
			if e.Interface == sharedDevice {
				f.add("node %s shares its egress, so no interface of it can be called %s", node, sharedDevice)
			}
		}
	}
}
