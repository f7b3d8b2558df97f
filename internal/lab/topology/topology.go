// Package topology says what a lab shall be: nodes, the links and tunnels between
// them, and the states that paths are switched to. Its values are plain data that
// Validate checks; routes follow from them.
package topology

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/linkem"
)

// DefaultMTU of links whose MTU is zero, in bytes: Ethernet's.
const DefaultMTU = 1500

// MaxEgressBitsPerSecond is the largest egress that can be metered: the limit of
// the kernel's token bucket in bytes, 10 ms at the rate, is a 32-bit field.
const MaxEgressBitsPerSecond = 1e12

// InitialTTL is what Linux gives packets it sends (IPDEFTTL of linux/ip.h).
const InitialTTL = 64

// DefaultCongestionControl is what endpoints use that ask for none, so that a
// result does not depend on the host's default.
const DefaultCongestionControl = "cubic"

// maxInterfaceName is the longest interface name in bytes: IFNAMSIZ of
// linux/if.h less the terminating zero.
const maxInterfaceName = 15

// Topology is the desired state of a lab.
type Topology struct {
	Nodes []Node `json:"nodes"`
	Links []Link `json:"links"`
	// RuleFiles are the texts of the rule files that an IDPS may name, by their
	// names in the experiment.
	RuleFiles map[string]string `json:"rule_files,omitempty"`
	// Notes are sentences on what the topology leaves out.
	Notes []string `json:"notes,omitempty"`
	// States of the paths that are switched in place. The lab starts with the
	// routes that its nodes say.
	States []State `json:"states,omitempty"`
}

// Node is one network namespace.
type Node struct {
	Name string `json:"name"`
	// Forward makes it forward IP packets between its interfaces. Routes never
	// lead through a node that does not forward.
	Forward bool `json:"forward,omitempty"`
	// Agent makes Start run Options.NodeCommand in it.
	Agent bool `json:"agent,omitempty"`
	// CongestionControl of TCP in this node, by its kernel name; empty leaves
	// the namespace's default.
	CongestionControl string `json:"congestion_control,omitempty"`
	// Sysctls to set, by dotted name ("net.ipv4.tcp_ecn"); Start fails when
	// one cannot be set.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Routes are added to those that follow from the links, and replace those to
	// the same destinations.
	Routes []Route `json:"routes,omitempty"`
	// Functions are what the node does beyond routing packets.
	Functions filter.Functions `json:"functions,omitzero"`
	// ShareEgress meters what the node sends through all its interfaces
	// together, which then have the same End.EgressBitsPerSecond.
	ShareEgress bool `json:"share_egress,omitempty"`
	// Tunnels that end in this node.
	Tunnels []Tunnel `json:"tunnels,omitempty"`
}

// Route is one static route of a node.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	// Via is the next hop; invalid for a subnet on the link itself.
	Via       netip.Addr `json:"via,omitzero"`
	Interface string     `json:"interface"`
	// Source is the address that packets take which the node itself sends.
	Source netip.Addr `json:"source,omitzero"`
}

// Link joins two interfaces.
type Link struct {
	A End `json:"a"`
	B End `json:"b"`
	// Link emulator impairs frames: Forward is what travels from A to B. Nil is a
	// plain veth pair.
	Emulation *linkem.Config `json:"emulation,omitempty"`
	// IDPS makes the link emulator inspect frames, nil for none.
	IDPS *IDPS `json:"idps,omitempty"`
	// MTU in bytes, 0 for DefaultMTU.
	MTU int `json:"mtu,omitempty"`
	// Standby links take no part in the routes that Plan derives.
	Standby bool `json:"standby,omitempty"`
	// Aggregate, where it is valid, is a larger subnet that contains the link's.
	// Nodes that are not on the link have a single route to it, so all links with
	// the same Aggregate must be behind the same node.
	Aggregate netip.Prefix `json:"aggregate,omitzero"`
	// Beyond, if valid, is the destination of the only route over this link that a
	// node at its end has which does not forward.
	Beyond netip.Prefix `json:"beyond,omitzero"`
}

// End is one interface of a link.
type End struct {
	Node      string       `json:"node"`
	Interface string       `json:"interface"`
	Address   netip.Prefix `json:"address"` // the interface's address and its subnet
	// EgressBitsPerSecond meters what the node sends through the interface
	// with a token bucket; 0 is unmetered.
	EgressBitsPerSecond float64 `json:"egress_bits_per_second,omitempty"`
	// Switch names the node whose software switch stands between the interface
	// and the link; empty for none.
	Switch string `json:"switch,omitempty"`
}

// EffectiveMTU is the MTU of the link in bytes.
func (l Link) EffectiveMTU() int { return cmp.Or(l.MTU, DefaultMTU) }

// Name tells the link apart from all others of the lab.
func (l Link) Name() string {
	return fmt.Sprintf("%s:%s--%s:%s", l.A.Node, l.A.Interface, l.B.Node, l.B.Interface)
}

// NodeNames are the names of the nodes in their order.
func (t Topology) NodeNames() []string {
	names := make([]string, len(t.Nodes))
	for i, n := range t.Nodes {
		names[i] = n.Name
	}
	return names
}

// InterfacesOf are the interfaces of a node in the order of the links.
func (t Topology) InterfacesOf(node string) []string {
	var names []string
	for _, l := range t.Links {
		for _, e := range []End{l.A, l.B} {
			if e.Node == node {
				names = append(names, e.Interface)
			}
		}
	}
	return names
}
