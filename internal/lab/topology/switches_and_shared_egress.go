package topology

import (
	"fmt"
	"regexp"
)

// SwitchBridge is the bridge of the switch before the end of a link. Each link has a
// bridge of its own, as virtual networks on one host are apart: frames, and
// answers to ARP, of one path never come by another.
func SwitchBridge(link int) string { return fmt.Sprintf("bridge%d", link) }

// SwitchNodePort is the port towards the node.
func SwitchNodePort(link int) string { return fmt.Sprintf("node%d", link) }

// SwitchLinkPort is the port towards the link.
func SwitchLinkPort(link int) string { return fmt.Sprintf("link%d", link) }

// switches checks the switches of a link's ends.
func (f *faults) switches(l Link, nodes map[string]bool) {
	for _, e := range []End{l.A, l.B} {
		switch {
		case e.Switch == "":
		case !nodes[e.Switch]:
			f.add("link end %s:%s: there is no node %q for its switch", e.Node, e.Interface, e.Switch)
		case e.Switch == l.A.Node || e.Switch == l.B.Node || l.A.Switch == l.B.Switch:
			f.add("link %s: the switch %s is an end of it, or that of both ends", l.Name(), e.Switch)
		}
	}
}

// SharedDevice is the device through which a node with a shared egress sends
// everything.
const SharedDevice = "egress"

// SharedPort names the device of a link at a node with a shared egress: the
// link's own name is that of the interface with the address.
func SharedPort(link int) string { return fmt.Sprintf("port%d", link) }

var sharedPort = regexp.MustCompile(`^port[0-9]+$`)

// OfSharedEgress says whether a node with a shared egress may have a device of that name.
func OfSharedEgress(name string) bool { return name == SharedDevice || sharedPort.MatchString(name) }

// SharedEgress are, by node, the ends of links whose egress is metered together,
// each with its link.
func SharedEgress(t Topology) map[string][]SharedEnd {
	shares := make(map[string]bool)
	for _, n := range t.Nodes {
		shares[n.Name] = n.ShareEgress
	}
	ends := make(map[string][]SharedEnd)
	for i, l := range t.Links {
		if shares[l.A.Node] {
			ends[l.A.Node] = append(ends[l.A.Node], SharedEnd{l.A, i, l.B, l.EffectiveMTU()})
		}
		if shares[l.B.Node] {
			ends[l.B.Node] = append(ends[l.B.Node], SharedEnd{l.B, i, l.A, l.EffectiveMTU()})
		}
	}
	return ends
}

// SharedEnd is an end of a link at a node that shares its egress.
type SharedEnd struct {
	End
	Link int // its index in the topology
	Peer End
	MTU  int // in bytes
}

// shared checks the nodes that share their egress.
func (f *faults) shared(t Topology) {
	for node, ends := range SharedEgress(t) {
		for _, e := range ends {
			if e.EgressBitsPerSecond == 0 || e.EgressBitsPerSecond != ends[0].EgressBitsPerSecond {
				f.add("node %s shares its egress, but %s has %g bit/s and %s has %g", node,
					ends[0].Interface, ends[0].EgressBitsPerSecond, e.Interface, e.EgressBitsPerSecond)
			}
			if OfSharedEgress(e.Interface) {
				f.add("node %s shares its egress, so no interface of it can be called %s", node, e.Interface)
			}
		}
	}
}
