package lab

import "net/netip"

// deriveRoutes gives each node a route to every subnet that it reaches through
// forwarding nodes over the fewest links; among equals the link that stands
// first in the topology wins. A node with one link gets a default route
// instead. Connected subnets need none. The result is by node, in the order of
// the links.
func deriveRoutes(t Topology) map[string][]Route {
	type hop struct{ link, end int } // end: 0 leaves through A, 1 through B
	forward := make(map[string]bool, len(t.Nodes))
	for _, n := range t.Nodes {
		forward[n.Name] = n.Forward
	}
	ends := make(map[string][]hop, len(t.Nodes))
	for i, l := range t.Links {
		ends[l.A.Node] = append(ends[l.A.Node], hop{i, 0})
		ends[l.B.Node] = append(ends[l.B.Node], hop{i, 1})
	}
	near := func(h hop) End {
		if h.end == 0 {
			return t.Links[h.link].A
		}
		return t.Links[h.link].B
	}
	far := func(h hop) End { return near(hop{h.link, 1 - h.end}) }

	routes := make(map[string][]Route, len(t.Nodes))
	for _, n := range t.Nodes {
		own := ends[n.Name]
		if len(own) == 1 {
			h := own[0]
			if forward[far(h).Node] {
				routes[n.Name] = []Route{{
					Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0),
					Via:         far(h).Address.Addr(), Interface: near(h).Interface, Source: near(h).Address.Addr(),
				}}
			}
			continue
		}
		// Breadth first from n: first[node] is the link by which n starts out.
		first := map[string]hop{n.Name: {}}
		subnets := make(map[netip.Prefix]hop)
		queue := []string{n.Name}
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			for _, h := range ends[at] {
				out := first[at]
				if at == n.Name {
					out = h
				}
				if subnet := near(h).Address.Masked(); subnet.IsValid() {
					if _, known := subnets[subnet]; !known {
						subnets[subnet] = out
						if at != n.Name {
							routes[n.Name] = append(routes[n.Name], Route{
								Destination: subnet, Via: far(out).Address.Addr(),
								Interface: near(out).Interface, Source: near(out).Address.Addr(),
							})
						}
					}
				}
				next := far(h).Node
				if _, seen := first[next]; !seen && forward[next] {
					first[next] = out
					queue = append(queue, next)
				}
			}
		}
	}
	return routes
}
