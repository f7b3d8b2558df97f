package topology

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// forwardTo follows the routes of a topology from a node to an address and
// returns the nodes on the way, or the reason why it does not arrive.
func forwardTo(t Topology, routes map[string][]Route, from string, to netip.Addr) ([]string, error) {
	forward := make(map[string]bool)
	for _, n := range t.Nodes {
		forward[n.Name] = n.Forward
	}
	// peer finds the far end of an interface.
	peer := make(map[[2]string]End)
	own := make(map[string][]End)
	for _, l := range t.Links {
		peer[[2]string{l.A.Node, l.A.Interface}], peer[[2]string{l.B.Node, l.B.Interface}] = l.B, l.A
		own[l.A.Node], own[l.B.Node] = append(own[l.A.Node], l.A), append(own[l.B.Node], l.B)
	}
	way := []string{from}
	for at := from; ; {
		out, best := "", -1
		for _, e := range own[at] {
			if e.Address.Addr() == to {
				return way, nil
			}
			if e.Address.Contains(to) && e.Address.Bits() > best {
				out, best = e.Interface, e.Address.Bits()
			}
		}
		for _, r := range routes[at] {
			if r.Destination.Contains(to) && r.Destination.Bits() > best {
				out, best = r.Interface, r.Destination.Bits()
				if gateway := peer[[2]string{at, out}]; gateway.Address.Addr() != r.Via {
					return way, fmt.Errorf("%s has a route via %s, but at the end of %s is %s", at, r.Via, out, gateway.Address)
				}
			}
		}
		switch {
		case best < 0:
			return way, fmt.Errorf("%s has no route", at)
		case at != from && !forward[at]:
			return way, fmt.Errorf("%s does not forward", at)
		case len(way) > len(t.Nodes):
			return way, fmt.Errorf("a loop")
		}
		at = peer[[2]string{at, out}].Node
		way = append(way, at)
	}
}

// distances counts the links from a node to each that it reaches through
// forwarding nodes, by relaxing until nothing changes.
func distances(t Topology, from string) map[string]int {
	forward := map[string]bool{from: true}
	for _, n := range t.Nodes {
		forward[n.Name] = forward[n.Name] || n.Forward
	}
	d := map[string]int{from: 0}
	for changed := true; changed; {
		changed = false
		relax := func(a, b string) {
			at, reached := d[a]
			if !reached || !forward[a] {
				return
			}
			if now, known := d[b]; !known || at+1 < now {
				d[b], changed = at+1, true
			}
		}
		for _, l := range t.Links {
			relax(l.A.Node, l.B.Node)
			relax(l.B.Node, l.A.Node)
		}
	}
	return d
}

// linksTo is the least number of links from a node to an end of a link: the
// link's own if it is connected, else through a forwarding node at either end
// of it. An endpoint with several interfaces is not reached at one through
// another: that is what lets an address select its path.
func linksTo(t Topology, d map[string]int, from string, l Link, e End) (least int, reachable bool) {
	forward := map[string]bool{from: true}
	for _, n := range t.Nodes {
		forward[n.Name] = forward[n.Name] || n.Forward
	}
	for _, at := range []string{l.A.Node, l.B.Node} {
		n, reached := d[at]
		if !reached || !forward[at] {
			continue
		}
		if at != e.Node {
			n++
		}
		if !reachable || n < least {
			least, reachable = n, true
		}
	}
	return least, reachable
}

// In any topology a packet to an interface's address arrives where it can, over
// at most one link more than needed: routes lead to subnets, so the way may
// take the link of the address itself last.
func TestRoutesArrive(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n := 2 + random.IntN(9)
		var topology Topology
		for i := range n {
			topology.Nodes = append(topology.Nodes, Node{Name: fmt.Sprint("n", i), Forward: random.IntN(4) > 0})
		}
		links := random.IntN(2 * n)
		for i := range links {
			a := random.IntN(n)
			b := (a + 1 + random.IntN(n-1)) % n
			topology.Links = append(topology.Links, Link{
				A: End{Node: fmt.Sprint("n", a), Interface: fmt.Sprint("a", i), Address: labtest.Address(0, i, 1)},
				B: End{Node: fmt.Sprint("n", b), Interface: fmt.Sprint("b", i), Address: labtest.Address(0, i, 2)},
			})
		}
		testutil.OK(t, topology.Validate())
		routes := deriveRoutes(topology)
		for _, from := range topology.Nodes {
			d := distances(topology, from.Name)
			for _, l := range topology.Links {
				for _, e := range []End{l.A, l.B} {
					want, reachable := linksTo(topology, d, from.Name, l, e)
					way, err := forwardTo(topology, routes, from.Name, e.Address.Addr())
					if reachable != (err == nil) {
						t.Fatalf("round %d: %s to %s of %s, %d links away (%v): %v, %v\n%+v", round, from.Name, e.Address, e.Node, want, reachable, way, err, topology.Links)
					}
					if err == nil && len(way)-1 > want+1 {
						t.Errorf("round %d: %s to %s of %s takes %v, %d links would do", round, from.Name, e.Address, e.Node, way, want)
					}
				}
			}
		}
	}
}
