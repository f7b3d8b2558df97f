package layout

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

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
func (w *pathBuilder) tunnel(t experiment.Tunnel) {
	name := fmt.Sprintf("%s-%d", t.Type, w.index)
	for w.layout.names[name] {
		name += "x"
	}
	w.layout.names[name] = true
	ends := make(map[string]topology.Tunnel)
	for k := range max(len(w.path.Pairs), 1) {
		one, inside := w.path.Of(k), w.insideAddresses(k)
		near := topology.Tunnel{
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
	p.ReceivedTTL, p.ReturnedTTL = topology.InitialTTL, topology.InitialTTL
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
func (w *pathBuilder) insideAddresses(k int) [2]netip.Prefix {
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
