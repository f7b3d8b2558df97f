package topology

import (
	"fmt"
	"net/netip"
	"strings"
)

// State is one state of a path whose hops are bypassed in place. All states of a
// path set the same routes of the same nodes and the modes of the same hops, so
// that any may follow any other.
type State struct {
	Path   string      `json:"path"` // whose state it is
	Of     string      `json:"of"`   // the path that has the nodes and addresses
	Routes []NodeRoute `json:"routes,omitempty"`
	// Modes are those of hops that stay on the path and change what they do.
	Modes []HopMode `json:"modes,omitempty"`
}

// NodeRoute is a route of a node. It replaces the one that the node has to the
// same destination.
type NodeRoute struct {
	Node  string `json:"node"`
	Route Route  `json:"route"`
}

// Key tells the routes of all nodes apart.
func (r NodeRoute) Key() string { return r.Node + " " + r.Route.Destination.String() }

// HopMode is what an idps does: off, alert or deny.
type HopMode struct {
	Node string `json:"node"`
	Mode string `json:"mode"`
}

// State finds the state of a path, nil when it is not switched in place.
func (t Topology) State(path string) *State {
	for i := range t.States {
		if t.States[i].Path == path {
			return &t.States[i]
		}
	}
	return nil
}

// states checks that every state can be brought about.
func (f *faults) states(t Topology, interfaces map[[2]string]bool) {
	seen := make(map[string]bool, len(t.States))
	for _, s := range t.States {
		if seen[s.Path] {
			f.add("the state of path %s is there twice", s.Path)
		}
		seen[s.Path] = true
		for _, r := range s.Routes {
			if !interfaces[[2]string{r.Node, r.Route.Interface}] {
				f.add("state of path %s: there is no interface %s:%s", s.Path, r.Node, r.Route.Interface)
			}
			f.route(r.Node, r.Route)
		}
	}
}

// overriding are the routes of explicit, after those of derived to other
// destinations.
func overriding(derived, explicit []Route) []Route {
	taken := make(map[netip.Prefix]bool, len(explicit))
	for _, r := range explicit {
		taken[r.Destination] = true
	}
	routes := make([]Route, 0, len(derived)+len(explicit))
	for _, r := range derived {
		if !taken[r.Destination] {
			routes = append(routes, r)
		}
	}
	return append(routes, explicit...)
}

// SetRoute gives a node a route instead of any to the same destination.
func (t Topology) SetRoute(node string, r Route) {
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Name == node {
			n.Routes = overriding(n.Routes, []Route{r})
		}
	}
}

// Routes are those of every node, by its name.
func (t Topology) Routes() map[string][]Route {
	all := deriveRoutes(t)
	for _, n := range t.Nodes {
		all[n.Name] = overriding(all[n.Name], n.Routes)
	}
	return all
}

// UnknownState explains that a path cannot be switched to.
func (t Topology) UnknownState(path string) error {
	if len(t.States) == 0 {
		return fmt.Errorf("path %q: no path of this lab is switched in place", path)
	}
	var names []string
	for _, s := range t.States {
		names = append(names, s.Path)
	}
	return fmt.Errorf("path %q is none of those that this lab switches in place: %s", path, strings.Join(names, ", "))
}
