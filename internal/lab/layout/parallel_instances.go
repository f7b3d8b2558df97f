package layout

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// ScaleOut is a hop of a path that takes new flows on more instances from some
// moment of a trial on.
type ScaleOut struct {
	Hop    string
	Nodes  []string      // that spread the flows
	Before int           // instances
	At     time.Duration // from the start of the trial's traffic
	After  int           // instances
}

// Backend is one of the nodes behind a path's load balancer.
type Backend struct {
	Node    string
	Address netip.Addr // of the node, on this path
}

// Answers are the addresses of which a trace must show one at the place of
// Hops[i]: several where flows are spread over instances.
func (p Path) Answers(i int) []netip.Addr {
	return append([]netip.Addr{p.Hops[i]}, p.Others[i]...)
}

// instances adds a hop of several nodes side by side between two that spread
// the flows over them:
//
//	… ── before ─┬─ instance 1 ── link emulator ─┬─ after ── …
//	             └─ instance 2 ── link emulator ─┘
//
// The links of each side are one link of the path's count: the subnet of
// instance k is the k-th of four addresses.
func (w *pathBuilder) instances(hop experiment.Hop) error {
	n, name := hop.Parallel(), hop.Label()
	if n > filter.MaxWays {
		return fmt.Errorf("hop %s: %d instances are more than %d", name, n, filter.MaxWays)
	}
	before, after := nodeFor(w.path.Name, name+".before", w.names), nodeFor(w.path.Name, name+".after", w.names)
	mtu := w.mtu
	if _, err := w.link(topology.End{Node: before, Interface: "to-source"}); err != nil {
		return err
	}
	if w.links+1 > maxLinks {
		return errTooManyLinks
	}
	there := filter.Spread{Active: max(hop.Instances, 1)}
	back := filter.Spread{Active: there.Active}
	w.topology.Nodes = append(w.topology.Nodes, topology.Node{Name: before, Forward: true, Functions: filter.Functions{Spread: &there}})
	for k := 1; k <= n; k++ {
		node := nodeFor(w.path.Name, fmt.Sprintf("%s.%d", name, k), w.names)
		w.topology.Nodes = append(w.topology.Nodes, topology.Node{Name: node, Forward: true, Functions: functionsOf(hop)})
		table := firewallTable(hop)
		table.Silent = hop.Silent
		w.setFilter(filterNode{hop: len(w.path.Hops), table: &table})
		in, out := w.pair(0, k), w.pair(1, k)
		links := []topology.Link{
			{
				A: topology.End{Node: before, Interface: fmt.Sprintf("to-%d", k), Address: in[0]},
				B: topology.End{Node: node, Interface: "to-source", Address: in[1]}, MTU: mtu,
			},
			{
				A: topology.End{Node: node, Interface: "to-destination", Address: out[0]},
				B: topology.End{Node: after, Interface: fmt.Sprintf("to-%d", k), Address: out[1]}, MTU: hop.MTU,
				Emulation: emulationOf([]experiment.Impairment{hop.Impairment}, node, w.links+1),
			},
		}
		w.topology.Links = append(w.topology.Links, links...)
		there.Ways = append(there.Ways, filter.Way{Interface: fmt.Sprintf("to-%d", k), Via: in[1].Addr()})
		back.Ways = append(back.Ways, filter.Way{Interface: fmt.Sprintf("to-%d", k), Via: out[0].Addr()})
		w.path.HopNodes = append(w.path.HopNodes, HopNode{Hop: name, Instance: k, Node: node, Interface: "to-destination"})
	}
	w.topology.Nodes = append(w.topology.Nodes, topology.Node{Name: after, Forward: true, Functions: filter.Functions{Spread: &back}})
	w.answers(there.Ways)
	if s := hop.ScaleOut; s != nil {
		w.path.ScaleOuts = append(w.path.ScaleOuts, ScaleOut{
			Hop: name, Nodes: []string{before, after}, Before: there.Active, At: s.At, After: s.Instances,
		})
	}
	w.joining[after] = len(w.hops)
	w.previous, w.links, w.mtu = topology.End{Node: after, Interface: "to-destination"}, w.links+2, hop.MTU
	return nil
}

// narrowInstances gives the links that leave instances the MTU of the link in the making, where
// that begins at the node that joins them: an instance says itself what does not fit, as a
// single one does. What the joining node said would take the way to one of them, whose
// firewall may not know the flow.
func (w *pathBuilder) narrowInstances() {
	if _, joins := w.joining[w.previous.Node]; !joins {
		return
	}
	for i := range w.topology.Links {
		if l := &w.topology.Links[i]; l.B.Node == w.previous.Node {
			l.MTU = w.mtu
		}
	}
}

// pair are the addresses at both ends of the k-th link, from 1, among those
// side by side in the place of the path's next link, or the one after it.
func (w *pathBuilder) pair(further, k int) [2]netip.Prefix {
	host := 4 * (k - 1)
	return [2]netip.Prefix{address(w.index, w.links+further, host+1), address(w.index, w.links+further, host+2)}
}

// answers notes the addresses of which a trace sees one as the next hop.
func (w *pathBuilder) answers(ways []filter.Way) {
	if w.path.Others == nil {
		w.path.Others = make(map[int][]netip.Addr)
	}
	at := len(w.path.Hops)
	w.path.Hops = append(w.path.Hops, ways[0].Via)
	for _, way := range ways[1:] {
		w.path.Others[at] = append(w.path.Others[at], way.Via)
	}
}

// balancer adds the node of a load balancer. Its address towards the source is
// the one that the path's traffic goes to; arrive gives it the back ends.
func (w *pathBuilder) balancer(hop experiment.Hop) error {
	if w.path.Balancer != "" {
		return fmt.Errorf("hop %s: the lab cannot build a second load balancer on a path", hop.Name)
	}
	if err := w.filtering(hop, filter.Table{}); err != nil {
		return err
	}
	w.path.Balancer, w.backends = w.previous.Node, hop.Parallel()
	w.filterNodes = append(w.filterNodes, filterNode{hop: len(w.path.Hops) - 1, node: w.previous.Node, table: new(filter.Table), balances: true})
	return nil
}

// arrive ends the path with end, at its destination: the endpoint, or behind a load
// balancer the endpoint and copies of it, each on a link of its own from the
// last node that forwards:
//
//	… ── balancer ─┬─ link emulator ── destination
//	               └─ link emulator ── copy
func (w *pathBuilder) arrive(end topology.End) error {
	if w.path.Balancer == "" {
		if err := w.join(end); err != nil {
			return err
		}
		w.path.Destination = w.path.Hops[len(w.path.Hops)-1]
		return nil
	}
	if w.links > maxLinks {
		return errTooManyLinks
	}
	if w.inspect != nil || end.Switch != "" {
		return fmt.Errorf("hop %s: the lab cannot build an idps or a software switch on the links to back ends", w.path.Balancer)
	}
	w.narrowInstances()
	front := slices.IndexFunc(w.filterNodes, func(s filterNode) bool { return s.balances })
	var addresses []netip.Addr
	var hops []HopNode
	last := slices.IndexFunc(w.path.HopNodes, func(h HopNode) bool { return h.Node == w.previous.Node })
	for k := 1; k <= w.backends; k++ {
		if k > 1 {
			end.Node = w.copyOf(w.path.DestinationNode, k)
		}
		ends := w.pair(0, k)
		near, far := w.previous, end
		near.Interface = fmt.Sprintf("to-backend-%d", k)
		near.Address, far.Address = ends[0], ends[1]
		link := topology.Link{A: near, B: far, MTU: w.mtu, Emulation: emulationOf(w.pending, near.Node+"/"+near.Interface, w.links)}
		w.topology.Links = append(w.topology.Links, link)
		addresses = append(addresses, far.Address.Addr())
		w.path.Backends = append(w.path.Backends, Backend{Node: far.Node, Address: far.Address.Addr()})
		if last >= 0 {
			hops = append(hops, HopNode{Hop: w.path.HopNodes[last].Hop, Instance: k, Node: near.Node, Interface: near.Interface})
		}
	}
	if last >= 0 {
		w.path.HopNodes = slices.Replace(w.path.HopNodes, last, last+1, hops...)
	}
	behind := slices.IndexFunc(w.hops, func(h hopPlace) bool { return h.Backends > 0 })
	for _, h := range w.hops[behind:] {
		w.path.BackendRoundTrip += FullRoundTrip(h.Hop)
	}
	i := slices.IndexFunc(w.topology.Nodes, func(n topology.Node) bool { return n.Name == w.path.Balancer })
	w.topology.Nodes[i].Functions.Balance = &filter.Balance{Address: w.path.Hops[w.filterNodes[front].hop], Backends: addresses}
	w.path.Hops, w.path.Destination = append(w.path.Hops, addresses[0]), addresses[0]
	w.links++
	return nil
}

// copyOf adds a node like an endpoint's, for this path alone.
func (w *pathBuilder) copyOf(endpoint string, k int) string {
	i := slices.IndexFunc(w.topology.Nodes, func(n topology.Node) bool { return n.Name == endpoint })
	node := w.topology.Nodes[i]
	node.Name, node.Tunnels = nodeFor(w.path.Name, fmt.Sprintf("%s.%d", endpoint, k), w.names), nil // those are of other paths
	w.topology.Nodes = append(w.topology.Nodes, node)
	return node.Name
}

// FullRoundTrip is how long a hop keeps an answer at most: by its delays, and by the queue of its
// rate, full in both directions.
func FullRoundTrip(h experiment.Hop) time.Duration {
	full := linkem.Direction{RateBitsPerSecond: h.RateBitsPerSecond, QueueBytes: h.QueueBytes, InspectRateBitsPerSecond: h.InspectRateBitsPerSecond}
	return h.RoundTrip() + 2*full.QueueTime()
}
