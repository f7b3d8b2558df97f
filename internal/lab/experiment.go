package lab

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"strings"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/experiment"
)

// InitialTTL is what Linux gives packets it sends (IPDEFTTL of linux/ip.h).
const InitialTTL = 64

// DefaultCongestionControl is what endpoints use that ask for none, so that a
// result does not depend on the host's default.
const DefaultCongestionControl = "cubic"

// Path is how one path of an experiment appears in a topology. The pair of
// addresses selects it: every path has its own at both endpoints.
type Path struct {
	Name            string
	SourceNode      string
	DestinationNode string
	Source          netip.Addr
	// Destination is the address that the source sends to.
	Destination netip.Addr
	// Hops are the addresses that a trace from the source must show, in order,
	// the destination last. That of a silent hop is invalid.
	Hops []netip.Addr
	// ReceivedTTL is what is left at the destination of InitialTTL.
	ReceivedTTL int
	// Listen is the address of the destination itself: Destination, but behind
	// a nat that translates that.
	Listen netip.Addr
	// Pairs are the pairs of endpoints that use the path at the same time, none
	// where there is only one; the fields above are those of the first.
	Pairs []Pair
}

// FromExperiment lays every path of e out at once: its endpoints are shared
// nodes with one interface per path, its other nodes are of that path alone.
// Rates are taken as they stand in e, so a scaled-down lab passes the scaled
// experiment.
//
// Path i, counted from 0, gets 10.i.0.0/16, of which link j from the source has
// the subnet 10.i.j.0/30: .1 nearer to the source, .2 nearer to the destination.
// Cables in a row, and the impairment of the node before them, are one link.
// Several pairs of endpoints are attached at both ends of each path (attach).
func FromExperiment(e *experiment.Experiment) (Topology, []Path, error) {
	l := layout{e: e, egress: make(map[string]float64, 2), names: make(map[string]bool)}
	if len(e.Paths) > 256 {
		return Topology{}, nil, fmt.Errorf("%d paths: a lab has addresses for 256", len(e.Paths))
	}
	for _, name := range []string{e.Source, e.Destination} {
		if err := l.endpoint(name); err != nil {
			return Topology{}, nil, err
		}
	}
	var paths []Path
	for i, p := range e.Paths {
		built, err := l.path(p, i)
		if err != nil {
			return Topology{}, nil, fmt.Errorf("path %s: %w", p.Name, err)
		}
		paths = append(paths, built)
	}
	return l.topology, paths, l.topology.Validate()
}

// layout is a topology in the making.
type layout struct {
	e        *experiment.Experiment
	topology Topology
	egress   map[string]float64 // by endpoint
	names    map[string]bool    // of interfaces at the endpoints
}

func (l *layout) endpoint(name string) error {
	i := indexOf(l.e.Endpoints, name)
	if i < 0 {
		return fmt.Errorf("endpoint %q is not among the experiment's endpoints", name)
	}
	endpoint := l.e.Endpoints[i]
	l.egress[name] = endpoint.EgressBitsPerSecond
	for _, host := range l.hosts(name) {
		l.topology.Nodes = append(l.topology.Nodes, Node{
			Name: host, Agent: true,
			CongestionControl: cmp.Or(endpoint.CongestionControl, DefaultCongestionControl),
		})
	}
	return nil
}

// walk is one path in the making, from the source on.
type walk struct {
	*layout
	path  Path
	index int // of the path
	// previous is the end that the next link begins at, pending what that link
	// does to frames, mtu its MTU.
	previous End
	pending  []experiment.Impairment
	mtu      int
	links    int
	names    map[string]int // of nodes, and how often
	stations []station
}

// path adds the nodes and links of path number i.
func (l *layout) path(p experiment.Path, i int) (Path, error) {
	name := interfaceFor(p.Name, i, l.names)
	w := &walk{
		layout: l, index: i, names: make(map[string]int),
		path: Path{Name: p.Name, SourceNode: l.e.Source, DestinationNode: l.e.Destination},
	}
	if err := l.pairsFit(p); err != nil {
		return w.path, err
	}
	source := End{Node: l.e.Source, Interface: name, EgressBitsPerSecond: l.egress[l.e.Source]}
	destination := End{Node: l.e.Destination, Interface: name, EgressBitsPerSecond: l.egress[l.e.Destination]}
	first, last := w.ends(source, destination)
	w.previous = first
	links := len(l.topology.Links)
	for _, hop := range p.Hops {
		if err := w.hop(hop); err != nil {
			return w.path, err
		}
	}
	if err := w.join(last); err != nil {
		return w.path, err
	}
	w.path.Source = address(i, 0, 1).Addr()
	w.path.Destination = address(i, w.links-1, 2).Addr()
	w.path.ReceivedTTL = InitialTTL - (w.links - 1)
	if l.e.Pairs > 1 {
		if err := w.attach(links, source, destination); err != nil {
			return w.path, err
		}
	}
	w.settle()
	return w.path, nil
}

// hop adds one hop: to the link in the making, or as a node.
func (w *walk) hop(hop experiment.Hop) error {
	var err error
	switch hop.Type {
	case experiment.Cable:
	case experiment.Router:
		err = w.router(hop)
	case experiment.Firewall:
		err = w.firewall(hop)
	case experiment.NAT:
		err = w.nat(hop)
	case experiment.Gateway:
		err = w.gateway(hop)
	default:
		err = fmt.Errorf("hop %s: the lab cannot build the type %q", hop.Name, hop.Type)
	}
	if err != nil {
		return err
	}
	w.pending = append(w.pending, hop.Impairment)
	if hop.MTU > 0 && (w.mtu == 0 || hop.MTU < w.mtu) {
		w.mtu = hop.MTU
	}
	return nil
}

// forwarder ends the link in the making at a new node that forwards packets,
// the last of the topology's, and begins the next link there.
func (w *walk) forwarder(hop experiment.Hop) error {
	node := nodeFor(w.path.Name, cmp.Or(hop.Name, string(hop.Type)), w.names)
	w.topology.Nodes = append(w.topology.Nodes, Node{Name: node, Forward: true})
	if err := w.join(End{Node: node, Interface: "to-source"}); err != nil {
		return err
	}
	w.previous = End{Node: node, Interface: "to-destination"}
	return nil
}

// join ends the link in the making.
func (w *walk) join(next End) error {
	if w.links > 255 {
		return fmt.Errorf("more than 256 links: a lab has addresses for no more")
	}
	w.previous.Address = address(w.index, w.links, 1)
	next.Address = address(w.index, w.links, 2)
	w.topology.Links = append(w.topology.Links, Link{
		A: w.previous, B: next, MTU: w.mtu,
		Cable: cableOf(w.pending, w.path.Name, w.links),
	})
	w.path.Hops = append(w.path.Hops, next.Address.Addr())
	w.pending, w.mtu, w.links = nil, 0, w.links+1
	return nil
}

func address(path, link, host int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(path), byte(link), byte(host)}), 30)
}

func indexOf(endpoints []experiment.Endpoint, name string) int {
	for i, e := range endpoints {
		if e.Name == name {
			return i
		}
	}
	return -1
}

// nodeFor is unique in the lab: hops of different paths are different nodes
// although the experiment may give them one name.
func nodeFor(path, hop string, used map[string]int) string {
	name := path + "/" + hop
	used[name]++
	if n := used[name]; n > 1 {
		name = fmt.Sprintf("%s.%d", name, n)
	}
	return name
}

// interfaceFor is the path's own name where the kernel allows it, so that
// `tcpdump -i one-appliance` shows what it says.
func interfaceFor(path string, i int, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && interfaceName.MatchString("x"+string(r)) {
			return r
		}
		return '-'
	}, path)
	if !interfaceName.MatchString(name) || name == "lo" || taken[name] {
		name = fmt.Sprintf("path-%d", i)
		for taken[name] {
			name += "x"
		}
	}
	taken[name] = true
	return name
}

// cableOf combines the impairments that follow one another on a link: delays
// add, independent normal variations add in square, a frame is lost or
// duplicated when any of them does it, and the slowest rate rules. Nil when
// there is nothing to impair.
func cableOf(impairments []experiment.Impairment, path string, link int) *cable.Config {
	var d cable.Direction
	kept, single, ordered := 1.0, 1.0, 1.0
	var variance float64
	for _, m := range impairments {
		d.Delay += m.Delay
		variance += float64(m.Jitter) * float64(m.Jitter)
		kept *= 1 - m.LossFraction
		single *= 1 - m.DuplicateFraction
		ordered *= 1 - m.ReorderFraction
		if r := m.RateBitsPerSecond; r > 0 && (d.RateBitsPerSecond == 0 || r < d.RateBitsPerSecond) {
			d.RateBitsPerSecond = r
		}
	}
	d.Jitter += roundDuration(math.Sqrt(variance))
	d.LossFraction, d.DuplicateFraction, d.ReorderFraction = complement(kept), complement(single), complement(ordered)
	if d == (cable.Direction{}) {
		return nil
	}
	// The seed is fixed by the place of the cable: the same experiment draws
	// the same losses whenever it is built.
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", path, link)
	return &cable.Config{
		Forward: d, Backward: d, Seed: h.Sum64(),
		// A cable carries super-packets of up to 44 segments and would lose
		// all of them together, where a network loses single segments. TCP
		// tells the difference, so such a cable is slower but honest.
		NoOffload: d.LossFraction > 0 || d.DuplicateFraction > 0 || d.ReorderFraction > 0,
	}
}

// complement is 1-p without the rounding noise that 1-(1-x) leaves in x.
func complement(p float64) float64 { return math.Round((1-p)*1e12) / 1e12 }
