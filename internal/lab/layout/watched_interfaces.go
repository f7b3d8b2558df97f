package layout

import (
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// noteLeading notes the link emulators that a path begins with: they are one link, which stands
// in the topology as number first, and no node of the path counts for them.
func (w *pathBuilder) noteLeading(hops []experiment.Hop, first int) {
	var names []string
	for _, hop := range hops {
		if hop.Forwards() {
			break
		}
		names = append(names, hop.Label())
	}
	if len(names) == 0 {
		return
	}
	begin := w.topology.Links[first].A
	w.path.Leading = &HopNode{Hop: strings.Join(names, " + "), Node: begin.Node, Interface: begin.Interface}
	w.noteDevice(first)
	if w.e.Pairs > 1 {
		w.path.Leading.noteReturn(w.topology.Links[first])
	}
}

// noteDevice notes by which device a link leaves the source, where that is not the interface
// that has the address: what the link's process is too slow for is dropped there.
func (w *pathBuilder) noteDevice(link int) {
	from, n := w.topology.Links[link].A, w.path.Leading
	if n == nil || n.Node != from.Node {
		return
	}
	var device Device
	switch {
	case from.Switch != "":
		device = Device{from.Switch, topology.SwitchLinkPort(link)}
	case slices.ContainsFunc(w.topology.Nodes, func(n topology.Node) bool { return n.Name == from.Node && n.ShareEgress }):
		device = Device{from.Node, topology.SharedPort(link)}
	default:
		return
	}
	if n.Devices == nil {
		n.Devices = make(map[string]Device)
	}
	n.Devices[from.Interface] = device
}

// noteEnds notes the far end of a link behind the hop that begins it.
func (w *pathBuilder) noteEnds(link int) {
	l := w.topology.Links[link]
	if l.B.Switch == "" {
		return
	}
	end := Device{l.B.Switch, topology.SwitchLinkPort(link)}
	for i := range w.path.HopNodes {
		if n := &w.path.HopNodes[i]; n.Node == l.A.Node && n.Leads(l.A.Interface) {
			n.Ends = append(n.Ends, end)
		}
	}
	if n := w.path.Leading; n != nil && n.Node == l.A.Node && n.Leads(l.A.Interface) {
		n.Ends = append(n.Ends, end)
	}
}

// noteBehindInstances notes a link emulator behind several instances at the node that joins
// them, which is no hop of the experiment.
func (w *pathBuilder) noteBehindInstances(link experiment.Hop) {
	if _, joins := w.joining[w.previous.Node]; !joins {
		return
	}
	if n := &w.path.HopNodes[len(w.path.HopNodes)-1]; n.Node == w.previous.Node {
		n.Hop += " + " + link.Label()
		return
	}
	w.path.HopNodes = append(w.path.HopNodes, HopNode{Hop: link.Label(), Node: w.previous.Node, Interface: w.previous.Interface})
}

// Watched are the hops whose counters say what passed on the path, in its order:
// the link emulators that it begins with, and HopNodes.
func (p Path) Watched() []HopNode {
	if p.Leading == nil {
		return p.HopNodes
	}
	return append([]HopNode{*p.Leading}, p.HopNodes...)
}

// At is what Lab.Counters calls the hop: its node or, of a host, which has an
// interface for every path, the interfaces that lead to the destination, with their devices;
// the meter of its rate towards the source, and the ends of its links.
func (n HopNode) At(host string) []string {
	var out []string
	for _, r := range n.Returns {
		out = append(out, topology.InterfaceOf(r.Node, r.Interface))
	}
	for _, e := range n.Ends {
		out = append(out, topology.InterfaceOf(e.Node, e.Interface))
	}
	if n.Node != host {
		return append(out, n.Node)
	}
	for _, name := range append([]string{n.Interface}, n.Bypasses...) {
		out = append(out, topology.InterfaceOf(n.Node, name))
		if d, there := n.Devices[name]; there {
			out = append(out, topology.InterfaceOf(d.Node, d.Interface))
		}
	}
	return out
}
