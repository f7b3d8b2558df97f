package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/lab/filter"
)

// DefaultMTU of links whose MTU is zero, in bytes: Ethernet's.
const DefaultMTU = 1500

// maxInterfaceName is the longest interface name in bytes: IFNAMSIZ of
// linux/if.h less the terminating zero.
const maxInterfaceName = 15

// Topology is the desired state of a lab, as one value.
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
	// Routes beyond those that Plan derives from the links, and instead of
	// those that it derives to the same destinations.
	Routes []Route `json:"routes,omitempty"`
	// Filter is what the node does to packets beyond routing them; may be nil.
	Filter *filter.Table `json:"filter,omitempty"`
	// ShareEgress meters what the node sends through all its interfaces
	// together, which then have the same End.EgressBitsPerSecond.
	ShareEgress bool `json:"share_egress,omitempty"`
	// Tunnels that end in this node.
	Tunnels []Tunnel `json:"tunnels,omitempty"`
	// Stopwatch says that the kernel's work on packets in the node is timed, where
	// the kernel can.
	Stopwatch bool `json:"stopwatch,omitempty"`
	// Spread and Balance divide flows among ways and back ends; nil for none.
	Spread  *filter.Spread  `json:"spread,omitempty"`
	Balance *filter.Balance `json:"balance,omitempty"`
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
	// Cable impairs frames: Forward is what travels from A to B. Nil is a
	// plain veth pair.
	Cable *cable.Config `json:"cable,omitempty"`
	// IDPS makes the cable inspect frames, nil for none.
	IDPS *IDPS `json:"idps,omitempty"`
	// MTU in bytes, 0 for DefaultMTU.
	MTU int `json:"mtu,omitempty"`
	// Standby links take no part in the routes that Plan derives.
	Standby bool `json:"standby,omitempty"`
	// Aggregate, where it is valid, is a larger subnet that holds the link's.
	// Nodes that are not on the link have one route to all of it, so many links
	// with one Aggregate must lie beyond the same node.
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

func (l Link) mtu() int {
	if l.MTU == 0 {
		return DefaultMTU
	}
	return l.MTU
}

var (
	nodeName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	sysctlName    = regexp.MustCompile(`^net(\.[a-z0-9_-]+)+$`)
	algorithmName = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)
)

// faults collects what is wrong with a topology.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// Validate checks that t can be built and reports every fault it finds.
func (t Topology) Validate() error {
	var f faults
	nodes := make(map[string]bool, len(t.Nodes))
	for _, n := range t.Nodes {
		if nodes[n.Name] {
			f.add("node %s is there twice", n.Name)
		}
		nodes[n.Name] = true
		f.node(n)
	}
	interfaces := make(map[[2]string]bool, 2*len(t.Links))
	addresses := make(map[netip.Addr]string, 2*len(t.Links))
	for _, l := range t.Links {
		for _, e := range []End{l.A, l.B} {
			where := e.Node + ":" + e.Interface
			if !nodes[e.Node] {
				f.add("link end %s: there is no such node", where)
			}
			if key := [2]string{e.Node, e.Interface}; interfaces[key] {
				f.add("link end %s is there twice", where)
			} else {
				interfaces[key] = true
			}
			if !f.end(e, where) {
				continue
			}
			if other, taken := addresses[e.Address.Addr()]; taken {
				f.add("link end %s: address %s is already that of %s", where, e.Address.Addr(), other)
			}
			addresses[e.Address.Addr()] = where
		}
		f.link(l)
		f.switches(l, nodes)
		f.idps(t, l)
	}
	f.tunnels(t.Nodes, interfaces, addresses)
	f.shared(t)
	f.states(t, interfaces)
	return errors.Join(f...)
}

func (f *faults) node(n Node) {
	if !nodeName.MatchString(n.Name) {
		f.add("node name %q: use letters, digits, '.', '_', '-' and '/', at most 128", n.Name)
	}
	for name := range n.Sysctls {
		if !sysctlName.MatchString(name) {
			f.add("node %s: sysctl %q is not one of a network namespace (net.…)", n.Name, name)
		}
	}
	if n.CongestionControl != "" && !algorithmName.MatchString(n.CongestionControl) {
		f.add("node %s: congestion control %q is not a kernel name", n.Name, n.CongestionControl)
	}
	if n.Filter != nil {
		if err := n.Filter.Validate(); err != nil {
			f.add("node %s: %w", n.Name, err)
		}
	}
	for _, r := range n.Routes {
		f.route(n.Name, r)
	}
	f.divided(n)
}

func (f *faults) route(node string, r Route) {
	if !r.Destination.IsValid() || !r.Destination.Addr().Is4() || r.Via.IsValid() && !r.Via.Is4() || r.Source.IsValid() && !r.Source.Is4() {
		f.add("node %s: route to %s: only IPv4 can be routed", node, r.Destination)
	}
}

// end checks one end by itself and tells whether its address may be looked at.
func (f *faults) end(e End, where string) (addressed bool) {
	if !interfaceName.MatchString(e.Interface) || e.Interface == "lo" {
		f.add("link end %s: an interface name has 1 to %d letters, digits, '.', '_' or '-' and is not lo", where, maxInterfaceName)
	}
	if !(e.EgressBitsPerSecond >= 0 && e.EgressBitsPerSecond <= maxEgressBitsPerSecond) {
		f.add("link end %s: an egress of %g bit/s is not between 0 and %g", where, e.EgressBitsPerSecond, float64(maxEgressBitsPerSecond))
	}
	if !e.Address.IsValid() || !e.Address.Addr().Is4() {
		f.add("link end %s: needs an IPv4 address with its prefix length", where)
		return false
	}
	return true
}

func (f *faults) link(l Link) {
	if l.A.Node == l.B.Node {
		f.add("link %s joins a node to itself", l.name())
	}
	if l.A.Address.IsValid() && l.A.Address.Masked() != l.B.Address.Masked() {
		f.add("link %s: the ends' subnets differ (%s, %s)", l.name(), l.A.Address.Masked(), l.B.Address.Masked())
	}
	if l.Aggregate.IsValid() && (l.Aggregate.Bits() > l.A.Address.Bits() || !l.Aggregate.Contains(l.A.Address.Addr())) {
		f.add("link %s: its subnet is not within %s", l.name(), l.Aggregate)
	}
	if l.Beyond.IsValid() && !l.Beyond.Addr().Is4() {
		f.add("link %s: only IPv4 can be routed, and not %s", l.name(), l.Beyond)
	}
	if mtu := l.mtu(); mtu < 68 || mtu > 65521 { // RFC 791's minimum; the largest of a TAP device
		f.add("link %s: an MTU of %d is not between 68 and 65521", l.name(), mtu)
	}
	if l.Cable != nil {
		if err := l.Cable.Validate(); err != nil {
			f.add("link %s: cable: %w", l.name(), err)
		}
	}
}
