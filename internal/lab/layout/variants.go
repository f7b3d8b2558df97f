package layout

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// firstBypass is the number of the first link of a path that passes hops by;
// links from the source have lower ones.
const firstBypass = 128

// mark is how far the walk along a path has come.
type mark struct {
	links int // of the topology
	hops  int // of the path
}

// span is what a hop of a path has become. Between first and last lie its
// nodes in Path.Hops, none for a cable. The link that leads to it is
// first.links; the one that leaves it, on which it acts, last.links.
type span struct {
	experiment.Hop
	first, last mark
}

func (s span) name() string { return cmp.Or(s.Name, string(s.Type)) }

func (s span) hasNode() bool { return s.last.hops > s.first.hops }

// actsInside says that what the hop does to frames, it does between nodes of
// its own: each of several instances has its own link for that.
func (s span) actsInside() bool { return s.Instances > 1 || s.ScaleOut != nil }

func (w *walk) mark() mark { return mark{links: len(w.topology.Links), hops: len(w.path.Hops)} }

// state is a path in the making as one of its variants has it.
type state struct {
	*walk
	index int // of the path
	path  Path
	off   []string // names of hops
}

// passed says whether a hop lies beside the way, towards the source when back
// is true.
func (s state) passed(h span, back bool) bool {
	if back && h.OneWay {
		return true
	}
	// An idps that is switched off stays where it is and lets everything
	// through: it is told so.
	return s.isOff(h) && h.Type != experiment.IDPS
}

func (s state) isOff(h span) bool { return h.Name != "" && slices.Contains(s.off, h.Name) }

// stretch is a number of hops in a row that one bypass passes, by their indexes
// into walk.spans, the last included.
type stretch struct{ first, last int }

// detour is a stretch that one direction passes by: towards the source when back.
type detour struct {
	stretch
	back bool
}

// detours are those of both directions.
func (s state) detours() []detour {
	var out []detour
	for _, back := range []bool{false, true} {
		for _, r := range s.stretches(back) {
			out = append(out, detour{r, back})
		}
	}
	return out
}

// stretches are the hops that one direction passes by, as long as possible each:
// between two of a stretch there are no other nodes.
func (s state) stretches(back bool) []stretch {
	var out []stretch
	open := false
	for i, h := range s.spans {
		switch {
		case !h.hasNode():
		case !s.passed(h, back):
			open = false
		case open:
			out[len(out)-1].last = i
		default:
			out, open = append(out, stretch{i, i}), true
		}
	}
	return out
}

// skipped counts the nodes that the way passes by.
func (s state) skipped(back bool) int {
	n := 0
	for _, h := range s.spans {
		if s.passed(h, back) {
			n += h.last.hops - h.first.hops
		}
	}
	return n
}

// expect completes what a trial on the path must see in this state.
func (s *state) expect() {
	base := s.walk.path
	beside := make(map[int]bool)    // by index into Hops
	passed := make(map[string]bool) // by name; nodes beside them, as those before a nat, are no hops of the experiment
	for _, h := range s.spans {
		passed[h.name()] = s.passed(h, false)
		if s.passed(h, false) {
			for i := h.first.hops; i < h.last.hops; i++ {
				beside[i] = true
			}
		}
	}
	s.path.Hops, s.path.Others, s.path.HopNodes = nil, nil, nil
	for i, hop := range base.Hops {
		if beside[i] {
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
		if there, ours := passed[n.Hop]; ours && !there {
			s.path.HopNodes = append(s.path.HopNodes, n)
		}
	}
	s.path.ReceivedTTL = base.ReceivedTTL + s.skipped(false)
	s.path.ReturnedTTL = base.ReceivedTTL + s.skipped(true)
	if base.Outer != nil {
		s.path.enter(s.walk.inside)
	}
}

// lanes are the paths that share the nodes of one walk: its own, which comes
// first, and those that are the same with some hops switched off.
type lanes struct {
	*walk
	states   []state
	bypasses map[stretch]int // to indexes into topology.Links
}

// lanes collects the states of the path that w has walked.
func (w *walk) lanes() *lanes {
	all := &lanes{walk: w, bypasses: make(map[stretch]int), states: []state{{walk: w, index: w.index, path: w.path}}}
	for i, p := range w.e.Paths {
		if p.SameAs == w.path.Name && p.SameAs != "" {
			s := state{walk: w, index: i, path: w.path, off: p.Off}
			s.path.Name, s.path.SameAs = p.Name, w.path.Name
			all.states = append(all.states, s)
		}
	}
	return all
}

// lay adds a bypass for every stretch of hops that some state passes by.
func (all *lanes) lay() error {
	for _, s := range all.states {
		for _, d := range s.detours() {
			if _, there := all.bypasses[d.stretch]; there {
				continue
			}
			if err := all.bypass(d.stretch); err != nil {
				return err
			}
		}
	}
	return nil
}

// bypass adds the link that passes r by. What else lies between its ends, such
// as a cable before the first hop, acts on the bypass as it does on the way
// through the hops.
func (all *lanes) bypass(r stretch) error {
	n := len(all.bypasses)
	number := firstBypass + n
	if all.links > firstBypass || number > maxSharedLinks {
		return fmt.Errorf("%d links and %d bypasses of hops: a lab has addresses for %d and %d", all.links, n+1, firstBypass, maxSharedLinks-firstBypass)
	}
	enter, leave := all.spans[r.first].first.links, all.spans[r.last].last.links
	var impairments []experiment.Impairment
	mtu := 0
	for i, h := range all.spans {
		passed := h.hasNode() && i >= r.first && i <= r.last
		if passed || h.last.links < enter || h.last.links > leave || h.actsInside() {
			continue
		}
		impairments = append(impairments, h.Impairment)
		if h.MTU > 0 && (mtu == 0 || h.MTU < mtu) {
			mtu = h.MTU
		}
	}
	a, b := all.topology.Links[enter].A, all.topology.Links[leave].B
	name := interfaceFor(fmt.Sprintf("bypass-%d-%d", all.index, n+1), all.index, all.layout.names)
	a.Interface, a.Address = name, address(all.index, number, 1)
	b.Interface, b.Address = name, address(all.index, number, 2)
	for i := range all.walk.path.HopNodes {
		if n := &all.walk.path.HopNodes[i]; n.Node == a.Node {
			n.Bypasses = append(n.Bypasses, name)
		}
	}
	if n := all.walk.path.Leading; n != nil && n.Node == a.Node {
		n.Bypasses = append(n.Bypasses, name)
	}
	all.bypasses[r] = len(all.topology.Links)
	all.topology.Links = append(all.topology.Links, topology.Link{
		A: a, B: b, MTU: mtu, Cable: cableOf(impairments, all.walk.path.Name, number), Standby: true,
	})
	return nil
}

// route gives the topology the states of the path, and its nodes the routes of
// the first of them. The given routes, by node, are those without a bypass.
func (all *lanes) route(routes map[string][]topology.Route) {
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
		is := topology.State{Path: s.path.Name, Of: all.walk.path.Name, Modes: s.modes()}
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
func (all *lanes) leaving(d detour, routes map[string][]topology.Route) []topology.NodeRoute {
	enter, leave := all.spans[d.first].first.links, all.spans[d.last].last.links
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
func (all *lanes) over(plain topology.Route, d detour) topology.Route {
	bypass := all.topology.Links[all.bypasses[d.stretch]]
	plain.Via, plain.Interface = bypass.B.Address.Addr(), bypass.A.Interface
	if d.back {
		plain.Via, plain.Interface = bypass.A.Address.Addr(), bypass.B.Interface
	}
	return plain
}

// modes are those of the path's hops that are switched by telling them.
func (s state) modes() []topology.HopMode {
	var out []topology.HopMode
	for _, h := range s.spans {
		if h.Type != experiment.IDPS {
			continue
		}
		mode := h.Mode
		if s.isOff(h) {
			mode = experiment.IDPSOff
		}
		for _, n := range s.walk.path.HopNodes {
			if n.Hop == h.name() {
				out = append(out, topology.HopMode{Node: n.Node, Mode: string(mode)})
			}
		}
	}
	return out
}

// switchable completes the walked paths by those that are the same with some
// hops switched off, and returns all in the order of the experiment.
func (l *layout) switchable(walks []*walk) ([]Path, error) {
	var all []*lanes
	paths := make([]Path, len(l.e.Paths))
	for _, w := range walks {
		lanes := w.lanes()
		if err := lanes.lay(); err != nil {
			return nil, fmt.Errorf("path %s: %w", w.path.Name, err)
		}
		for _, s := range lanes.states {
			s.expect()
			paths[s.index] = s.path
		}
		all = append(all, lanes)
	}
	for i, p := range l.e.Paths {
		if p.SameAs != "" && paths[i].SameAs == "" {
			return nil, fmt.Errorf("path %s is the same as %q, which is no path with hops of its own", p.Name, p.SameAs)
		}
	}
	routes := l.topology.Routes()
	for _, lanes := range all {
		lanes.route(routes)
	}
	return paths, nil
}
