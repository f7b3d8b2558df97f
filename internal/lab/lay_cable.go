package lab

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
)

// lead notes the cables that a path begins with: they are one link, which stands
// in the topology as number first, and no node of the path counts for them.
func (w *walk) lead(hops []experiment.Hop, first int) {
	var names []string
	for _, hop := range hops {
		if hop.Type != experiment.Cable {
			break
		}
		names = append(names, cmp.Or(hop.Name, string(experiment.Cable)))
	}
	if len(names) == 0 {
		return
	}
	begin := w.topology.Links[first].A
	w.path.Leading = &HopNode{Hop: strings.Join(names, " + "), Node: begin.Node, Interface: begin.Interface}
}

// Watched are the hops whose counters say what passed on the path, in its order:
// the cables that it begins with, and HopNodes.
func (p Path) Watched() []HopNode {
	if p.Leading == nil {
		return p.HopNodes
	}
	return append([]HopNode{*p.Leading}, p.HopNodes...)
}

// At is what Lab.Counters calls the hop: its node or, of a host, which has an
// interface for every path, the interfaces that lead to the destination.
func (n HopNode) At(host string) []string {
	if n.Node != host {
		return []string{n.Node}
	}
	out := []string{n.Node + interfaceMark + n.Interface}
	for _, name := range n.Bypasses {
		out = append(out, n.Node+interfaceMark+name)
	}
	return out
}

// interfaceMark separates a node from one of its interfaces where Lab.Counters
// is asked for that; no name of a node has it.
const interfaceMark = ":"

// wanted are the nodes, or single interfaces of nodes, whose counters are
// asked for; all where there are none.
type wanted []string

// node says whether the node or any interface of it is asked for.
func (w wanted) node(name string) bool {
	return len(w) == 0 || slices.ContainsFunc(w, func(s string) bool {
		node, _, _ := strings.Cut(s, interfaceMark)
		return node == name
	})
}

// end says whether what is at the end of a link is asked for.
func (w wanted) end(e End) bool {
	return len(w) == 0 || slices.Contains(w, e.Node) || slices.Contains(w, e.Node+interfaceMark+e.Interface)
}
