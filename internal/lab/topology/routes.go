package topology

import (
	"net/netip"
	"slices"
)

// way leaves a node over a link: through its A end or through its B end.
type way struct {
	link int
	toA  bool
}

// graph is a topology as its nodes see it.
type graph struct {
	links   []Link
	ways    map[string][]way // out of each node, in the order of the links
	forward map[string]bool
}

func graphOf(t Topology) graph {
	g := graph{links: t.Links, ways: make(map[string][]way, len(t.Nodes)), forward: make(map[string]bool, len(t.Nodes))}
	for _, n := range t.Nodes {
		g.forward[n.Name] = n.Forward
	}
	for i, l := range t.Links {
		if l.Standby {
			continue
		}
		g.ways[l.A.Node] = append(g.ways[l.A.Node], way{i, false})
		g.ways[l.B.Node] = append(g.ways[l.B.Node], way{i, true})
	}
	return g
}

// near is the end of w at the node that it leaves, far the other.
func (g graph) near(w way) End {
	if w.toA {
		return g.links[w.link].B
	}
	return g.links[w.link].A
}

func (g graph) far(w way) End { return g.near(way{w.link, !w.toA}) }

// subnet is that of w's link, as nodes on the link know it or those beyond.
func (g graph) subnet(w way, beyond bool) netip.Prefix {
	if a := g.links[w.link].Aggregate; beyond && a.IsValid() {
		return a.Masked()
	}
	return g.near(w).Address.Masked()
}

// over is the route that starts out on w.
func (g graph) over(w way, destination netip.Prefix) Route {
	return Route{
		Destination: destination, Via: g.far(w).Address.Addr(),
		Interface: g.near(w).Interface, Source: g.near(w).Address.Addr(),
	}
}

// deriveRoutes gives each node a route to every subnet that it reaches through
// forwarding nodes over the fewest links; among equals the link that stands
// first in the topology wins. A node with one link gets a default route
// instead, and one that does not forward has one over each link where all of
// them say what lies beyond. Connected subnets need none, and links that stand by
// are left out. The result is by node, in the order of the links.
func deriveRoutes(t Topology) map[string][]Route {
	g := graphOf(t)
	routes := make(map[string][]Route, len(t.Nodes))
	for _, n := range t.Nodes {
		routes[n.Name] = g.routesOf(n.Name)
	}
	return routes
}

func (g graph) routesOf(node string) []Route {
	if own := g.ways[node]; len(own) == 1 {
		if !g.forward[g.far(own[0]).Node] {
			return nil
		}
		return []Route{g.over(own[0], netip.PrefixFrom(netip.IPv4Unspecified(), 0))}
	}
	if !g.forward[node] && !slices.ContainsFunc(g.ways[node], func(w way) bool { return !g.links[w.link].Beyond.IsValid() }) {
		var routes []Route
		for _, w := range g.ways[node] {
			routes = append(routes, g.over(w, g.links[w.link].Beyond.Masked()))
		}
		return routes
	}
	// Breadth first: first tells by which way the node starts out to another.
	var routes []Route
	first := map[string]way{node: {}}
	known := make(map[netip.Prefix]bool)
	for queue := []string{node}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, w := range g.ways[at] {
			out := first[at]
			if at == node {
				out = w
			}
			if subnet := g.subnet(w, at != node); !known[subnet] {
				known[subnet] = true
				if at != node { // else it is connected
					routes = append(routes, g.over(out, subnet))
				}
			}
			next := g.far(w).Node
			if _, seen := first[next]; !seen && g.forward[next] {
				first[next] = out
				queue = append(queue, next)
			}
		}
	}
	return routes
}
