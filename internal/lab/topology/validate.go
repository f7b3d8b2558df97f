package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

var (
	nodeName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	sysctlName    = regexp.MustCompile(`^net(\.[a-z0-9_-]+)+$`)
	algorithmName = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)
)

// ValidInterface says whether the kernel and a lab take name for an interface. Under all and
// default the kernel has settings of others (devinet_sysctl_register in net/ipv4/devinet.c).
func ValidInterface(name string) bool {
	return interfaceName.MatchString(name) && name != "lo" && name != "all" && name != "default"
}

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
	for row, function := range n.Functions.All() {
		if err := function.Validate(); err != nil {
			f.add("node %s: %w", n.Name, err)
		}
		if row < filter.Routing && !n.Forward {
			f.add("node %s: distributes flows, but does not forward", n.Name)
		}
	}
	for _, r := range n.Routes {
		f.route(n.Name, r)
	}
}

func (f *faults) route(node string, r Route) {
	if !r.Destination.IsValid() || !r.Destination.Addr().Is4() || r.Via.IsValid() && !r.Via.Is4() || r.Source.IsValid() && !r.Source.Is4() {
		f.add("node %s: route to %s: only IPv4 can be routed", node, r.Destination)
	}
}

// end checks one end by itself and tells whether its address may be looked at.
func (f *faults) end(e End, where string) (addressed bool) {
	if !ValidInterface(e.Interface) {
		f.add("link end %s: an interface name has 1 to %d letters, digits, '.', '_' or '-' and is not lo", where, maxInterfaceName)
	}
	if !(e.EgressBitsPerSecond >= 0 && e.EgressBitsPerSecond <= MaxEgressBitsPerSecond) {
		f.add("link end %s: an egress of %g bit/s is not between 0 and %g", where, e.EgressBitsPerSecond, float64(MaxEgressBitsPerSecond))
	}
	if !e.Address.IsValid() || !e.Address.Addr().Is4() {
		f.add("link end %s: needs an IPv4 address with its prefix length", where)
		return false
	}
	return true
}

func (f *faults) link(l Link) {
	if l.A.Node == l.B.Node {
		f.add("link %s joins a node to itself", l.Name())
	}
	if l.A.Address.IsValid() && l.A.Address.Masked() != l.B.Address.Masked() {
		f.add("link %s: the ends' subnets differ (%s, %s)", l.Name(), l.A.Address.Masked(), l.B.Address.Masked())
	}
	if l.Aggregate.IsValid() && (l.Aggregate.Bits() > l.A.Address.Bits() || !l.Aggregate.Contains(l.A.Address.Addr())) {
		f.add("link %s: its subnet is not within %s", l.Name(), l.Aggregate)
	}
	if l.Beyond.IsValid() && !l.Beyond.Addr().Is4() {
		f.add("link %s: only IPv4 can be routed, and not %s", l.Name(), l.Beyond)
	}
	if mtu := l.EffectiveMTU(); mtu < 68 || mtu > 65521 { // RFC 791's minimum; the largest of a TAP device
		f.add("link %s: an MTU of %d is not between 68 and 65521", l.Name(), mtu)
	}
	if l.Emulation != nil {
		if err := l.Emulation.Validate(); err != nil {
			f.add("link %s: link emulator: %w", l.Name(), err)
		}
	}
}
