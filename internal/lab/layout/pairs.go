package layout

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// Pair is one of several pairs of endpoints as it appears on a path.
type Pair struct {
	SourceNode      string
	DestinationNode string
	Source          netip.Addr
	Destination     netip.Addr
	// OuterSource and OuterDestination are the addresses below a tunnel, invalid
	// without one.
	OuterSource      netip.Addr
	OuterDestination netip.Addr
	// Access is what a trace from the source shows first: the node that joins
	// all sources to the path.
	Access netip.Addr
}

// Of is the path as pair k, counted from 0, takes it. A path without Pairs is
// the same for its only pair, 0.
func (p Path) Of(k int) Path {
	if len(p.Pairs) == 0 {
		return p
	}
	pair := p.Pairs[k]
	p.SourceNode, p.DestinationNode, p.Source, p.Destination = pair.SourceNode, pair.DestinationNode, pair.Source, pair.Destination
	p.Listen, p.Pairs = pair.Destination, nil
	if p.Outer != nil && pair.OuterSource.IsValid() {
		p.Outer, p.Hops = p.Outer.within(pair), []netip.Addr{pair.Destination}
		return p
	}
	p.Hops = slices.Clone(p.Hops)
	p.Hops[0], p.Hops[len(p.Hops)-1] = pair.Access, pair.Destination
	return p
}

// The third byte of the addresses of access links, how many links of its
// own that leaves a path with several pairs, and how many pairs have addresses in them.
const (
	sourceSubnet      = 254
	destinationSubnet = 255
	maxSharedLinks    = sourceSubnet
	maxPairs          = 127
)

// hosts names the nodes of an endpoint: itself, or one for each of several pairs.
func (l *layout) hosts(endpoint string) []string {
	if l.e.Pairs <= 1 {
		return []string{endpoint}
	}
	names := make([]string, l.e.Pairs)
	for k := range names {
		names[k] = fmt.Sprintf("%s-%d", endpoint, k+1)
	}
	return names
}

// ends are where the first link of the path begins and its last ends: at the
// endpoints themselves or, with several pairs, at the two nodes that join all
// sources and all destinations to the path.
func (w *pathBuilder) ends(source, destination topology.End) (first, last topology.End) {
	if w.e.Pairs <= 1 {
		return source, destination
	}
	first = topology.End{Node: w.accessOf(source), Interface: "to-destination"}
	last = topology.End{Node: w.accessOf(destination), Interface: "to-source"}
	for _, e := range []topology.End{first, last} {
		w.names[e.Node]++
		w.topology.Nodes = append(w.topology.Nodes, topology.Node{Name: e.Node, Forward: true})
	}
	w.path.Hops = append(w.path.Hops, w.accessAddress(sourceSubnet, 0, 0).Addr())
	return first, last
}

func (w *pathBuilder) accessOf(endpoint topology.End) string {
	return w.path.Name + "/" + endpoint.Node + "-access"
}

// attach joins the sources and the destinations of several pairs to the path,
// whose own links stand in the topology from number first on.
//
// Of path i, the source of pair k, counted from 1, has 10.i.254.2k+1 and its
// destination 10.i.255.2k+1, in subnets of two addresses (RFC 3021), and 2k is
// the access node's. All other nodes have one route to each side, and each host one
// to the whole path.
func (w *pathBuilder) attach(first int, source, destination topology.End) error {
	if w.links > maxSharedLinks {
		return fmt.Errorf("more than %d links: a lab with several pairs has addresses for no more", maxSharedLinks)
	}
	sources, destinations := w.hosts(source.Node), w.hosts(destination.Node)
	own := w.topology.Links[first:]
	for i := range own {
		meter(&own[i])
		for j := range w.path.HopNodes {
			w.path.HopNodes[j].noteReturn(own[i])
		}
	}
	sourceMTU, destinationMTU := own[0].MTU, own[len(own)-1].MTU
	for k := range sources {
		pair := Pair{
			SourceNode: sources[k], DestinationNode: destinations[k],
			Access: w.accessAddress(sourceSubnet, k, 0).Addr(),
			Source: w.accessAddress(sourceSubnet, k, 1).Addr(), Destination: w.accessAddress(destinationSubnet, k, 1).Addr(),
		}
		w.path.Pairs = append(w.path.Pairs, pair)
		port := fmt.Sprintf("pair-%d", k+1)
		host := source
		host.Node, host.Address = pair.SourceNode, w.accessAddress(sourceSubnet, k, 1)
		w.topology.Links = append(w.topology.Links, topology.Link{
			A: host, B: topology.End{Node: w.accessOf(source), Interface: port, Address: w.accessAddress(sourceSubnet, k, 0)},
			MTU: sourceMTU, Aggregate: w.accessSubnet(sourceSubnet), Beyond: w.pathSubnet(),
		})
		host = destination
		host.Node, host.Address = pair.DestinationNode, w.accessAddress(destinationSubnet, k, 1)
		w.topology.Links = append(w.topology.Links, topology.Link{
			A: topology.End{Node: w.accessOf(destination), Interface: port, Address: w.accessAddress(destinationSubnet, k, 0)}, B: host,
			MTU: destinationMTU, Aggregate: w.accessSubnet(destinationSubnet), Beyond: w.pathSubnet(),
		})
	}
	w.path.Hops = append(w.path.Hops, w.path.Pairs[0].Destination)
	w.path.ReceivedTTL = topology.InitialTTL - (len(w.path.Hops) - 1)
	pairs := w.path.Pairs
	w.path = w.path.Of(0)
	w.path.Pairs = pairs
	return nil
}

// widenAccess has the links of hosts to an access node carry what a bypass does that begins or
// ends there: they have the MTU of the link that it passes by.
func (w *pathBuilder) widenAccess(bypass topology.Link) {
	mtu := func(l topology.Link) int { return cmp.Or(l.MTU, topology.DefaultMTU) }
	for i := range w.topology.Links {
		l := &w.topology.Links[i]
		joins := l.B.Node == bypass.A.Node || l.A.Node == bypass.B.Node
		if joins && l.Aggregate.IsValid() && mtu(*l) < mtu(bypass) {
			l.MTU = bypass.MTU
		}
	}
}

// allowed are the pairs of addresses between which a hop lets packets through
// where the first source appears as source: itself, or a nat that all share.
func (w *pathBuilder) allowed(source netip.Addr) []filter.Pair {
	var out []filter.Pair
	for k := range max(len(w.path.Pairs), 1) {
		one := w.path.Of(k)
		pair := filter.Pair{A: source, B: one.Destination}
		if source == w.path.Source {
			pair.A = one.Source
		}
		out = append(out, pair)
	}
	return out
}

// meter has the kernel's token bucket, as of an endpoint's egress, do what a
// link emulator does that has a rate and nothing else. A link emulator is a process, which would
// have to be given a CPU by all those of the hosts: with 60 of them and
// 1920 flows on 2 CPUs it came too late, and the flows starved.
func meter(l *topology.Link) {
	if l.Emulation == nil || l.A.EgressBitsPerSecond > 0 || l.B.EgressBitsPerSecond > 0 {
		return
	}
	rateOnly := topology.Link{A: l.A, B: l.B, MTU: l.MTU, Standby: l.Standby, Emulation: &linkem.Config{
		Forward:  linkem.Direction{RateBitsPerSecond: l.Emulation.Forward.RateBitsPerSecond},
		Backward: linkem.Direction{RateBitsPerSecond: l.Emulation.Backward.RateBitsPerSecond},
		Seed:     l.Emulation.Seed,
	}}
	// For a queue of an emulator, which the bucket replaces.
	rateOnly.Emulation.NoOffload = rateOnly.Emulation.Forward.NarrowQueue()
	there, back := l.Emulation.Forward.RateBitsPerSecond, l.Emulation.Backward.RateBitsPerSecond
	// Whatever else the link is made to do needs its link emulator.
	if !reflect.DeepEqual(*l, rateOnly) || max(there, back) > topology.MaxEgressBitsPerSecond {
		return
	}
	l.Emulation, l.A.EgressBitsPerSecond, l.B.EgressBitsPerSecond = nil, there, back
}

// noteReturn notes the meter at the far end of a link, if the hop is at its beginning and
// a meter has its rate.
func (n *HopNode) noteReturn(l topology.Link) {
	if l.A.Node == n.Node && n.Leads(l.A.Interface) && l.A.EgressBitsPerSecond > 0 && l.B.EgressBitsPerSecond > 0 {
		n.Returns = append(n.Returns, ReturnMeter{l.B.Node, l.B.Interface})
	}
}

// pathSubnet holds all of the path's links.
func (w *pathBuilder) pathSubnet() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(w.index), 0, 0}), 16)
}

// accessSubnet holds the access links of all sources, or of all destinations.
func (w *pathBuilder) accessSubnet(subnet byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(w.index), subnet, 0}), 24)
}

// accessAddress is that of the access node (side 0) or of the host (1) on the
// access link of pair k, counted from 0.
func (w *pathBuilder) accessAddress(subnet byte, k, side int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(w.index), subnet, byte(2*(k+1) + side)}), 31)
}
