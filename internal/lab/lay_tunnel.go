package lab

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
)

// Tunnel is one end of an encapsulation between two nodes. The other node has
// its mirror image.
type Tunnel struct {
	Type      experiment.TunnelType `json:"type"`
	Interface string                `json:"interface"`
	ID        int                   `json:"id,omitempty"` // VXLAN network identifier, 24 bits
	Port      int                   `json:"port"`         // of UDP, at both ends
	MTU       int                   `json:"mtu"`          // inside, in bytes
	// Local and Remote are the addresses that it runs between.
	Local  netip.Addr `json:"local"`
	Remote netip.Addr `json:"remote"`
	// Address is this end's inside and its subnet, Peer the other's.
	Address netip.Prefix `json:"address"`
	Peer    netip.Addr   `json:"peer"`
}

// String is the tunnel as a plan says it.
func (t Tunnel) String() string {
	id := ""
	if t.Type == experiment.VXLAN {
		id = fmt.Sprintf(" id %d", t.ID)
	}
	return fmt.Sprintf("%s %s%s udp %d mtu %d from %s to %s for %s", t.Interface, t.Type, id, t.Port, t.MTU, t.Local, t.Remote, t.Peer)
}

// OuterPath is the path that a tunnel takes.
type OuterPath struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	// Hops are the addresses that a trace from Source to Destination must show.
	Hops []netip.Addr `json:"hops"`
	// Others are as those of Path.
	Others map[int][]netip.Addr `json:"others,omitempty"`
	// Interface is that of the source node by which the tunnel's packets leave,
	// Port the UDP port that they go to.
	Interface string `json:"interface"`
	Port      int    `json:"port"`
	MTU       int    `json:"mtu"` // inside the tunnel, in bytes
}

// tunnel puts a tunnel between the ends of the path, which is complete but for
// that; its states enter it. Each of several pairs has a tunnel of its own. They
// are alike but for their addresses, since no two end at one host.
func (w *walk) tunnel(t experiment.Tunnel) {
	name := fmt.Sprintf("%s-%d", t.Type, w.index)
	for w.layout.names[name] {
		name += "x"
	}
	w.layout.names[name] = true
	ends := make(map[string]Tunnel)
	for k := range max(len(w.path.Pairs), 1) {
		one, inside := w.path.Of(k), w.insideAddresses(k)
		near := Tunnel{
			Type: t.Type, Interface: name, ID: t.ID, Port: t.Port, MTU: t.MTU,
			Local: one.Source, Remote: one.Destination, Address: inside[0], Peer: inside[1].Addr(),
		}
		far := near
		far.Local, far.Remote, far.Address, far.Peer = near.Remote, near.Local, inside[1], inside[0].Addr()
		ends[one.SourceNode], ends[one.DestinationNode] = near, far
		w.inside = append(w.inside, [2]netip.Addr{near.Address.Addr(), far.Address.Addr()})
	}
	for i := range w.topology.Nodes {
		n := &w.topology.Nodes[i]
		if end, there := ends[n.Name]; there {
			n.Tunnels = append(n.Tunnels, end)
		}
	}
	w.path.Outer = &OuterPath{
		Source: w.path.Source, Destination: w.path.Destination,
		Interface: w.name, Port: t.Port, MTU: t.MTU,
	}
}

// enter makes of a path over all hops the path inside its tunnel, whose ends
// have, for each pair, the addresses of inside.
func (p *Path) enter(inside [][2]netip.Addr) {
	outer := *p.Outer
	outer.Hops, outer.Others = p.Hops, p.Others
	p.Outer = &outer
	p.Source, p.Destination, p.Listen = inside[0][0], inside[0][1], inside[0][1]
	p.Hops, p.Others = []netip.Addr{p.Destination}, nil
	p.ReceivedTTL, p.ReturnedTTL = InitialTTL, InitialTTL
	p.Pairs = slices.Clone(p.Pairs)
	for k := range p.Pairs {
		pair := &p.Pairs[k]
		pair.OuterSource, pair.OuterDestination = pair.Source, pair.Destination
		pair.Source, pair.Destination = inside[k][0], inside[k][1]
	}
}

// within is the tunnel's path as one of several pairs takes it.
func (o OuterPath) within(pair Pair) *OuterPath {
	o.Source, o.Destination = pair.OuterSource, pair.OuterDestination
	o.Hops = slices.Clone(o.Hops)
	o.Hops[0], o.Hops[len(o.Hops)-1] = pair.Access, pair.OuterDestination
	return &o
}

// insideAddresses are those of the two ends of the tunnel of a path, or of its
// pair k, counted from 0: in a subnet of two addresses (RFC 3021) for each.
func (w *walk) insideAddresses(k int) [2]netip.Prefix {
	first, bits := 1, 30
	if len(w.path.Pairs) > 0 {
		first, bits = 2*(k+1), 31
	}
	var ends [2]netip.Prefix
	for i := range ends {
		ends[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, maxPaths, byte(w.index), byte(first + i)}), bits)
	}
	return ends
}

// tunnelDevices are the operations that make the ends of tunnels.
func tunnelDevices(t Topology) []Operation {
	var ops []Operation
	for _, n := range t.Nodes {
		for _, tunnel := range n.Tunnels {
			ops = append(ops, Operation{Verb: AddTunnel, Node: n.Name, Interface: tunnel.Interface, Tunnel: tunnel})
		}
	}
	return ops
}

// tunnelAddresses are those that give the ends their addresses, as those of
// links have them.
func tunnelAddresses(t Topology) []Operation {
	var ops []Operation
	for _, n := range t.Nodes {
		for _, tunnel := range n.Tunnels {
			ops = append(ops, Operation{
				Verb: SetAddress, Node: n.Name, Interface: tunnel.Interface, Address: tunnel.Address,
				NoPrefixRoute: n.CongestionControl != "",
			})
			if n.CongestionControl != "" {
				ops = append(ops, Operation{
					Verb: AddRoute, Node: n.Name, Congestion: n.CongestionControl,
					Route: Route{Destination: tunnel.Address.Masked(), Interface: tunnel.Interface, Source: tunnel.Address.Addr()},
				})
			}
		}
	}
	return ops
}

// tunnels checks the tunnels of all nodes; interfaces and addresses are those of
// the links.
func (f *faults) tunnels(nodes []Node, interfaces map[[2]string]bool, addresses map[netip.Addr]string) {
	for _, n := range nodes {
		sockets := make(map[string]string)
		for _, t := range n.Tunnels {
			where := fmt.Sprintf("node %s: tunnel %s", n.Name, t.Interface)
			if !interfaceName.MatchString(t.Interface) || interfaces[[2]string{n.Name, t.Interface}] {
				f.add("%s: the name is not one for an interface, or taken", where)
			}
			interfaces[[2]string{n.Name, t.Interface}] = true
			f.tunnel(t, where)
			// A VXLAN socket takes all networks of its port, told apart by
			// their identifiers; one of WireGuard is a single tunnel's.
			socket := fmt.Sprintf("%s UDP port %d", t.Type, t.Port)
			if t.Type == experiment.VXLAN {
				socket = fmt.Sprintf("%s id %d", socket, t.ID)
			}
			if other, taken := sockets[socket]; taken {
				f.add("%s: %s is already that of %s", where, socket, other)
			}
			sockets[socket] = t.Interface
			if other, taken := addresses[t.Address.Addr()]; taken {
				f.add("%s: address %s is already that of %s", where, t.Address.Addr(), other)
			}
			addresses[t.Address.Addr()] = where
		}
	}
}

// tunnel checks one end by itself.
func (f *faults) tunnel(t Tunnel, where string) {
	switch {
	case t.Type != experiment.VXLAN && t.Type != experiment.WireGuard:
		f.add("%s: there are vxlan and wireguard, not %q", where, t.Type)
	case t.ID < 0 || t.ID >= 1<<24:
		f.add("%s: an id of %d is not one of 24 bits", where, t.ID)
	case t.Port < 1 || t.Port > 65535:
		f.add("%s: %d is not a UDP port", where, t.Port)
	case t.MTU < 68 || t.MTU > 65521:
		f.add("%s: an MTU of %d is not between 68 and 65521", where, t.MTU)
	case !t.Local.Is4() || !t.Remote.Is4() || !t.Peer.Is4() || !t.Address.IsValid() || !t.Address.Addr().Is4():
		f.add("%s: needs IPv4 addresses outside and inside", where)
	case !t.Address.Contains(t.Peer):
		f.add("%s: the peer %s is not in %s", where, t.Peer, t.Address.Masked())
	}
}
