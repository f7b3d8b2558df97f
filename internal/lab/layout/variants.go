package layout

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// firstBypass is the number of the first link of a path that bypasses hops;
// links from the source have lower ones.
const firstBypass = 128

// position is how far the building of a path has come.
type position struct {
	links int // of the topology
	hops  int // of the path
}

// hopPlace is what a hop of a path has become. Between first and last lie its
// nodes in Path.Hops, none for a link. The link that leads to it is
// first.links; the one that leaves it, on which it acts, last.links.
type hopPlace struct {
	experiment.Hop
	first, last position
}

func (s hopPlace) hasNode() bool { return s.last.hops > s.first.hops }

// actsInside says that the hop's impairment is on links between nodes of its own,
// as each of several instances has one.
func (s hopPlace) actsInside() bool { return s.Instances > 1 || s.ScaleOut != nil }

func (w *pathBuilder) position() position {
	return position{links: len(w.topology.Links), hops: len(w.path.Hops)}
}

// state is a path in the making as one of its variants has it.
type state struct {
	*pathBuilder
	index   int // of the path
	path    Path
	variant experiment.Path // with the hops that are off
}

// passed says whether a hop is bypassed, towards the source when back
// is true.
func (s state) passed(h hopPlace, back bool) bool {
	if back && h.OneWay {
		return true
	}
	return s.variant.Bypasses(h.Hop)
}

// hopRange is a number of hops in a row that one bypass passes, by their indexes
// into pathBuilder.hops, the last included.
type hopRange struct{ first, last int }

// detour is a hopRange that one direction passes by: towards the source when back.
type detour struct {
	hopRange
	back bool
}

// detours are those of both directions. What a one-way hop itself says to the source passes by
// the hops before it that are off, although traffic to the source passes it by, too.
func (s state) detours() []detour {
	var out []detour
	there, back := s.ranges(false), s.ranges(true)
	for _, r := range there {
		out = append(out, detour{r, false})
	}
	for _, r := range back {
		out = append(out, detour{r, true})
	}
	for _, r := range there {
		if slices.ContainsFunc(back, func(b hopRange) bool { return b.first <= r.first && r.last < b.last }) {
			out = append(out, detour{r, true})
		}
	}
	return out
}

// ranges are the hops that one direction bypasses, neighbours joined: there is no
// other node between two hops of a range.
func (s state) ranges(back bool) []hopRange {
	var out []hopRange
	open := false
	for i, h := range s.hops {
		switch {
		case !h.hasNode():
		case !s.passed(h, back):
			open = false
		case open:
			out[len(out)-1].last = i
		default:
			out, open = append(out, hopRange{i, i}), true
		}
	}
	return out
}

// skipped counts the nodes that one direction bypasses.
func (s state) skipped(back bool) int {
	n := 0
	for _, h := range s.hops {
		if s.passed(h, back) {
			n += h.last.hops - h.first.hops
		}
	}
	return n
}

// expect completes what a trial on the path must see in this state.
func (s *state) expect() {
	base := s.pathBuilder.path
	bypassed := make(map[int]bool)  // by index into Hops
	passed := make(map[string]bool) // by name; nodes next to them, as those before a nat, are no hops of the experiment
	for _, h := range s.hops {
		passed[h.Label()] = s.passed(h, false)
		if s.passed(h, false) {
			for i := h.first.hops; i < h.last.hops; i++ {
				bypassed[i] = true
			}
		}
	}
	s.path.Hops, s.path.Others, s.path.HopNodes = nil, nil, nil
	for i, hop := range base.Hops {
		if bypassed[i] {
			continue
		}
		if others := base.Others[i]; len(others) > 0 {
			if s.path.Others == nil {
				s.path.Others = make(map[int][]netip.Addr)
			}
			s.path.Others[len(s.path.Hops)] = others
		}
		s.path.Hops = append(s.path.Hops, hop)
	}
	for _, n := range base.HopNodes {
		there, ours := passed[n.Hop]
		if place, joins := s.joining[n.Node]; joins {
			there, ours = s.passed(s.hops[place], false), true
		}
		if ours && !there {
			s.path.HopNodes = append(s.path.HopNodes, n)
		}
	}
	s.path.ScaleOuts = nil
	for _, grows := range base.ScaleOuts {
		if !passed[grows.Hop] {
			s.path.ScaleOuts = append(s.path.ScaleOuts, grows)
		}
	}
	s.noteParts()
	s.path.ReceivedTTL = base.ReceivedTTL + s.skipped(false)
	s.path.ReturnedTTL = base.ReceivedTTL + s.skipped(true)
	if base.Outer != nil {
		s.path.enter(s.pathBuilder.inside)
	}
}

// variants are the paths that share the nodes of one path: its own, which comes
// first, and its variants, which bypass some hops.
type variants struct {
	*pathBuilder
	states   []state
	bypasses map[hopRange]int // to indexes into topology.Links
}

// variants collects the states of the path that w has built.
func (w *pathBuilder) variants() *variants {
	all := &variants{pathBuilder: w, bypasses: make(map[hopRange]int), states: []state{{pathBuilder: w, index: w.index, path: w.path}}}
	for i, p := range w.e.Paths {
		if p.VariantOf == w.path.Name && p.VariantOf != "" {
			s := state{pathBuilder: w, index: i, path: w.path, variant: p}
			s.path.Name, s.path.VariantOf = p.Name, w.path.Name
			all.states = append(all.states, s)
		}
	}
	return all
}

// addBypasses adds a bypass for every hopRange of hops that some state passes by.
func (all *variants) addBypasses() error {
	for _, s := range all.states {
		for _, d := range s.detours() {
			if _, there := all.bypasses[d.hopRange]; there {
				continue
			}
			if err := all.bypass(d.hopRange); err != nil {
				return err
			}
		}
	}
	return nil
}

// bypass adds the link that passes r by. What else lies between its ends, such
// as a link emulator before the first hop, or the inspection of an idps there, acts on the
// bypass as it does on the way through the hops.
func (all *variants) bypass(r hopRange) error {
	n := len(all.bypasses)
	number := firstBypass + n
	if all.links > firstBypass || number > maxSharedLinks {
		return fmt.Errorf("%d links and %d bypasses of hops: a lab has addresses for %d and %d", all.links, n+1, firstBypass, maxSharedLinks-firstBypass)
	}
	enter, leave := all.hops[r.first].first.links, all.hops[r.last].last.links
	var impairments []experiment.Impairment
	mtu := 0
	for i, h := range all.hops {
		passed := h.hasNode() && i >= r.first && i <= r.last
		if passed || h.last.links < enter || h.last.links > leave {
			continue
		}
		if !h.actsInside() {
			impairments = append(impairments, h.Impairment)
		}
		if h.MTU > 0 && (mtu == 0 || h.MTU < mtu) {
			mtu = h.MTU
		}
	}
	a, b := all.topology.Links[enter].A, all.topology.Links[leave].B
	name := interfaceFor(fmt.Sprintf("bypass-%d-%d", all.index, n+1), all.index, all.layout.names)
	a.Interface, a.Address = name, address(all.index, number, 1)
	b.Interface, b.Address = name, address(all.index, number, 2)
	severalPairs := all.e.Pairs > 1
	if severalPairs { // the meters there are of the links that the bypass stands for
		a.EgressBitsPerSecond, b.EgressBitsPerSecond = 0, 0
	}
	link := topology.Link{
		A: a, B: b, MTU: mtu, Emulation: emulationOf(impairments, all.pathBuilder.path.Name, number), Standby: true,
	}
	if before := all.topology.Links[enter]; before.IDPS != nil { // the hop before the bypass
		inspect(&link, before.IDPS, before.Emulation.Forward.InspectRateBitsPerSecond)
	}
	if severalPairs {
		meter(&link)
		all.widenAccess(link)
	}
	for i := range all.pathBuilder.path.HopNodes {
		all.pathBuilder.path.HopNodes[i].noteBypass(link, severalPairs)
	}
	if n := all.pathBuilder.path.Leading; n != nil {
		n.noteBypass(link, severalPairs)
	}
	all.bypasses[r] = len(all.topology.Links)
	all.topology.Links = append(all.topology.Links, link)
	all.noteDevice(all.bypasses[r])
	all.noteEnds(all.bypasses[r])
	return nil
}

// noteBypass notes a bypass that begins at the hop, and its meter if it has one of its own.
func (n *HopNode) noteBypass(l topology.Link, metered bool) {
	if n.Node != l.A.Node {
		return
	}
	n.Bypasses = append(n.Bypasses, l.A.Interface)
	if metered {
		n.noteReturn(l)
	}
}

// leaves has the packets of a tunnel looked for where they leave the source in a state that
// bypasses some hops.
func (all *variants) leaves(p *Path, bypassed []hopRange) {
	for _, r := range bypassed {
		if a := all.topology.Links[all.bypasses[r]].A; p.Outer != nil && a.Node == p.SourceNode {
			p.Outer.Interface = a.Interface
		}
	}
}

// route gives the topology the states of the path, and its nodes the routes of
// the first of them. The given routes, by node, are those without a bypass.
func (all *variants) route(routes map[string][]topology.Route) {
	var touched []topology.NodeRoute // by any state, as they are without a bypass
	moved := make([]map[string]topology.Route, len(all.states))
	known := make(map[string]bool)
	for i, s := range all.states {
		moved[i] = make(map[string]topology.Route)
		for _, d := range s.detours() {
			for _, plain := range all.leaving(d, routes) {
				moved[i][plain.Key()] = all.over(plain.Route, d)
				if !known[plain.Key()] {
					known[plain.Key()] = true
					touched = append(touched, plain)
				}
			}
		}
	}
	for _, plain := range touched {
		if r, there := moved[0][plain.Key()]; there {
			all.topology.SetRoute(plain.Node, r)
		}
	}
	if len(all.states) == 1 {
		return // it is never left
	}
	for i, s := range all.states {
		is := topology.State{Path: s.path.Name, Of: all.pathBuilder.path.Name, Modes: s.modes()}
		for _, r := range touched {
			if instead, there := moved[i][r.Key()]; there {
				r.Route = instead
			}
			is.Routes = append(is.Routes, r)
		}
		all.topology.States = append(all.topology.States, is)
	}
}

// leaving are the routes by which packets set out to the hops of a detour.
func (all *variants) leaving(d detour, routes map[string][]topology.Route) []topology.NodeRoute {
	enter, leave := all.hops[d.first].first.links, all.hops[d.last].last.links
	end := func(link int) topology.End { return all.topology.Links[link].A }
	from := end(enter)
	if d.back {
		end = func(link int) topology.End { return all.topology.Links[link].B }
		from = end(leave)
	}
	interfaces := make(map[string]bool)
	for link := enter; link <= leave; link++ {
		if e := end(link); e.Node == from.Node {
			interfaces[e.Interface] = true
		}
	}
	var out []topology.NodeRoute
	for _, route := range routes[from.Node] {
		if interfaces[route.Interface] {
			out = append(out, topology.NodeRoute{Node: from.Node, Route: route})
		}
	}
	return out
}

// over is a route that takes the bypass. Its source address stays: an answer
// to a trace comes from the address that the node has on the path.
func (all *variants) over(plain topology.Route, d detour) topology.Route {
	bypass := all.topology.Links[all.bypasses[d.hopRange]]
	plain.Via, plain.Interface = bypass.B.Address.Addr(), bypass.A.Interface
	if d.back {
		plain.Via, plain.Interface = bypass.A.Address.Addr(), bypass.B.Interface
	}
	return plain
}

// modes are those of the path's hops that are switched by telling them.
func (s state) modes() []topology.HopMode {
	var out []topology.HopMode
	for _, h := range s.hops {
		if h.Bypass() != experiment.BypassByMode {
			continue
		}
		mode := h.Mode
		if s.variant.IsOff(h.Hop) {
			mode = experiment.IDPSOff
		}
		for _, n := range s.pathBuilder.path.HopNodes {
			if _, joins := s.joining[n.Node]; n.Hop == h.Label() && !joins {
				out = append(out, topology.HopMode{Node: n.Node, Mode: string(mode)})
			}
		}
	}
	return out
}

// switchable completes the built paths by their variants, which bypass some
// hops, and returns all in the order of the experiment.
func (l *layout) switchable(built []*pathBuilder) ([]Path, error) {
	var all []*variants
	paths := make([]Path, len(l.e.Paths))
	for _, w := range built {
		one := w.variants()
		if err := one.addBypasses(); err != nil {
			return nil, fmt.Errorf("path %s: %w", w.path.Name, err)
		}
		for _, s := range one.states {
			s.expect()
			one.leaves(&s.path, s.ranges(false))
			paths[s.index] = s.path
		}
		all = append(all, one)
	}
	for i, p := range l.e.Paths {
		if p.VariantOf != "" && paths[i].VariantOf == "" {
			return nil, fmt.Errorf("path %s is the same as %q, which is no path with hops of its own", p.Name, p.VariantOf)
		}
	}
	routes := l.topology.Routes()
	for _, one := range all {
		one.route(routes)
	}
	return paths, nil
}
