package layout

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/measurement"
)

// maxPaths leaves 10.255.0.0/16 to the insides of tunnels.
const maxPaths = 255

// Path is one path of an experiment in a topology. A pair of addresses selects it:
// every path has its own at both endpoints. Variants of a path share its addresses;
// Lab.Switch selects one of them.
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
	// Others are further addresses that may answer in the place of one of Hops,
	// by its index; see Answers.
	Others map[int][]netip.Addr
	// ReceivedTTL is what is left at the destination of InitialTTL, ReturnedTTL
	// what is left of it at the source.
	ReceivedTTL int
	ReturnedTTL int
	// Listen is the address of the destination itself: Destination, but behind
	// a nat that translates that.
	Listen netip.Addr
	// Outer is the path below a tunnel, nil without one; all the rest is then
	// what is seen inside.
	Outer *OuterPath
	// HopNodes are the nodes that packets to the destination cross, in order,
	// every instance of a hop that has several. Link emulators behind those are a hop
	// of their own, at the node that joins the instances.
	HopNodes []HopNode
	// Leading is where the link emulators lie that the path begins with, nil without any:
	// the source itself, or the node that joins several. Later link emulators are what
	// the node before them does.
	Leading *HopNode
	// ScaleOuts are the hops that grow in the middle of a trial.
	ScaleOuts []ScaleOut
	// Balancer is the node of a load balancer, empty for none. Destination is
	// then its address, and Backends are the nodes behind it, the first of them
	// DestinationNode.
	Balancer string
	Backends []Backend
	// BackendRoundTrip is how long the path's delays have a round trip from Balancer to a
	// back end take, with nearly all of their jitter, and with the queues of its rates full.
	BackendRoundTrip time.Duration
	// VariantOf is the path whose nodes and addresses this one shares, with some
	// hops bypassed; empty for a path of its own.
	VariantOf string
	// Pairs are the pairs of endpoints that use the path at the same time, none
	// where there is only one; the fields above are those of the first.
	Pairs []Pair
}

// HopNode is where a hop of the experiment lies in the topology.
type HopNode struct {
	Hop string // its name in the experiment
	// Instance is counted from 1 where the hop has several, else 0. Those of
	// the last hop behind a load balancer are its links to the back ends.
	Instance int
	Node     string
	// Interface is the one of the node that leads to the destination. Bypasses
	// lead there past the next hops.
	Interface string
	Bypasses  []string
	// Returns are the far ends of the hop's links that have the hop's rate towards the
	// source as the meter of their egress.
	Returns []ReturnMeter
	// Parts are the hops that do what is counted there.
	Parts measurement.HopParts
	// Devices are those by which links leave a host that are not its own interfaces, by the
	// names of these: behind a software switch, or a shared egress.
	Devices map[string]Device
	// Ends are the far ends of the hop's links behind the software switch of a host, which
	// does not know what is dropped there.
	Ends []Device
}

// Device is an interface of a node.
type Device struct{ Node, Interface string }

// ReturnMeter is an interface of the node behind a hop.
type ReturnMeter struct{ Node, Interface string }

// Leads says whether an interface of the node leads to the destination.
func (n HopNode) Leads(name string) bool {
	return name == n.Interface || slices.Contains(n.Bypasses, name)
}

// FromExperiment lays every path of e out at once: its endpoints are shared
// nodes with one interface per path, its other nodes are of that path alone.
// Rates are taken as they stand in e, so a scaled-down lab passes the scaled
// experiment.
//
// Path i, counted from 0, gets 10.i.0.0/16, of which link j from the source has
// the subnet 10.i.j.0/30: .1 nearer to the source, .2 nearer to the destination.
// Link emulators in a row, and the impairment of the node before them, are one link.
// The links that pass by a hop, where one can be switched off or is one-way,
// are numbered from 128. The inside of the tunnel of path i is 10.255.i.0/30, the
// source .1. Several pairs of endpoints are attached at both ends of each path
// (attach).
func FromExperiment(e *experiment.Experiment) (topology.Topology, []Path, error) {
	l := layout{e: e, egress: make(map[string]float64, 2), names: make(map[string]bool)}
	if len(e.Paths) > maxPaths {
		return topology.Topology{}, nil, fmt.Errorf("%d paths: a lab has addresses for %d", len(e.Paths), maxPaths)
	}
	if e.Pairs > maxPairs {
		return topology.Topology{}, nil, fmt.Errorf("%d pairs: a lab has addresses for %d; give the experiment fewer, or measure machines of a fleet (--testbed)", e.Pairs, maxPairs)
	}
	for _, name := range []string{e.Source, e.Destination} {
		if err := l.endpoint(name); err != nil {
			return topology.Topology{}, nil, err
		}
	}
	var built []*pathBuilder
	for i, p := range e.Paths {
		if p.VariantOf != "" {
			continue
		}
		w, err := l.buildPath(p, i)
		if err != nil {
			return topology.Topology{}, nil, fmt.Errorf("path %s: %w", p.Name, err)
		}
		built = append(built, w)
	}
	paths, err := l.switchable(built)
	if err != nil {
		return topology.Topology{}, nil, err
	}
	l.placeSamplers()
	return l.topology, paths, l.topology.Validate()
}

// functionsOf are those that a node of any type of hop has.
func functionsOf(hop experiment.Hop) (f filter.Functions) {
	if hop.MeasureKernelCPU {
		f.KernelCPU = &filter.KernelCPU{}
	}
	return f
}

// placeSamplers tells the samplers of kernel CPU time where they are, once all nodes
// have their interfaces.
func (l *layout) placeSamplers() {
	var samplers []*filter.KernelCPU
	for _, n := range l.topology.Nodes {
		if k := n.Functions.KernelCPU; k != nil {
			k.Interfaces = l.topology.InterfacesOf(n.Name)
			samplers = append(samplers, k)
		}
	}
	for _, k := range samplers {
		k.Gap = filter.SamplerGap(len(samplers))
	}
}

// layout is a topology in the making.
type layout struct {
	e        *experiment.Experiment
	topology topology.Topology
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
	for _, p := range l.e.Paths {
		if l.sharesEgress(i) && topology.OfSharedEgress(p.Name) {
			l.names[p.Name] = true
		}
	}
	for _, host := range l.hosts(name) {
		l.topology.Nodes = append(l.topology.Nodes, topology.Node{
			Name: host, Agent: true, ShareEgress: l.sharesEgress(i),
			CongestionControl: cmp.Or(endpoint.CongestionControl, topology.DefaultCongestionControl),
		})
	}
	return nil
}

// pathBuilder is one path in the making, from the source on.
type pathBuilder struct {
	*layout
	path  Path
	index int    // of the path
	name  string // of its interfaces at the endpoints
	// previous is the end that the next link begins at, pending what that link
	// does to frames, mtu its MTU.
	previous topology.End
	pending  []experiment.Impairment
	mtu      int
	inspect  *topology.IDPS // of the link in the making
	// inspectRate is in bit/s, 0 unlimited.
	inspectRate float64
	links       int
	names       map[string]int // of nodes, and how often
	filterNodes []filterNode
	backends    int // of the path's load balancer
	// inside are the addresses of the ends of the path's tunnel, for each pair.
	inside [][2]netip.Addr
	hops   []hopPlace // the hops so far
	// joining are the nodes that join the instances of a hop, by which place it has in hops.
	joining map[string]int
}

// buildPath adds the nodes and links of path number i.
func (l *layout) buildPath(p experiment.Path, i int) (*pathBuilder, error) {
	name := interfaceFor(p.Name, i, l.names)
	w := &pathBuilder{
		layout: l, index: i, name: name, names: make(map[string]int), joining: make(map[string]int),
		path: Path{Name: p.Name, SourceNode: l.e.Source, DestinationNode: l.e.Destination},
	}
	source, destination := l.attachment(l.e.Source, name, p), l.attachment(l.e.Destination, name, p)
	first, last := w.ends(source, destination)
	w.previous = first
	links := len(l.topology.Links)
	for _, hop := range p.Hops {
		first := w.position()
		if err := w.hop(hop); err != nil {
			return nil, err
		}
		w.hops = append(w.hops, hopPlace{hop, first, w.position()})
	}
	if err := w.arrive(last); err != nil {
		return nil, err
	}
	w.path.Source = address(i, 0, 1).Addr()
	w.path.ReceivedTTL = topology.InitialTTL - (len(w.path.Hops) - 1)
	if l.e.Pairs > 1 {
		if err := w.attach(links, source, destination); err != nil {
			return nil, err
		}
	}
	w.noteLeading(p.Hops, links)
	for i := range w.topology.Links[links:] {
		w.noteEnds(links + i)
	}
	w.resolveAddresses()
	if p.Tunnel != nil {
		w.tunnel(*p.Tunnel)
	}
	return w, nil
}

// hop adds one hop: to the link in the making, or as a node.
func (w *pathBuilder) hop(hop experiment.Hop) error {
	build, known := hopBuilders()[hop.Type]
	if !known {
		return fmt.Errorf("hop %s: the lab cannot build the type %q", hop.Name, hop.Type)
	}
	if hop.Parallel() > 1 && hop.Backends == 0 {
		return w.instances(hop)
	}
	if build == nil {
		w.noteBehindInstances(hop)
	} else if err := build(w, hop); err != nil {
		return err
	}
	w.pending = append(w.pending, hop.Impairment)
	if hop.MTU > 0 && (w.mtu == 0 || hop.MTU < w.mtu) {
		w.mtu = hop.MTU
	}
	return nil
}

// towardsSource is the interface of a hop's node that packets from the source come in by.
const towardsSource = "to-source"

// forwarder ends the link in the making at a new node that forwards packets,
// the last of the topology's, and begins the next link there.
func (w *pathBuilder) forwarder(hop experiment.Hop) error {
	node := nodeFor(w.path.Name, hop.Label(), w.names)
	w.topology.Nodes = append(w.topology.Nodes, topology.Node{Name: node, Forward: true, Functions: functionsOf(hop)})
	if err := w.join(topology.End{Node: node, Interface: towardsSource}); err != nil {
		return err
	}
	w.previous = topology.End{Node: node, Interface: "to-destination"}
	w.path.HopNodes = append(w.path.HopNodes, HopNode{Hop: hop.Label(), Node: node, Interface: w.previous.Interface})
	return nil
}

// join ends the link in the making at the next hop that a trace sees.
func (w *pathBuilder) join(next topology.End) error {
	hop, err := w.link(next)
	if err == nil {
		w.path.Hops = append(w.path.Hops, hop)
	}
	return err
}

// maxLinks is the last number that a link of a path can have.
const maxLinks = 255

var errTooManyLinks = fmt.Errorf("more than %d links: a lab has addresses for no more", maxLinks+1)

// link ends the link in the making and returns the address of its far end.
func (w *pathBuilder) link(next topology.End) (netip.Addr, error) {
	if w.links > maxLinks {
		return netip.Addr{}, errTooManyLinks
	}
	w.previous.Address = address(w.index, w.links, 1)
	next.Address = address(w.index, w.links, 2)
	link := topology.Link{
		A: w.previous, B: next, MTU: w.mtu,
		Emulation: emulationOf(w.pending, w.path.Name, w.links),
	}
	w.inspected(&link)
	w.narrowInstances()
	w.topology.Links = append(w.topology.Links, link)
	w.pending, w.mtu, w.links = nil, 0, w.links+1
	return next.Address.Addr(), nil
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
		if r < 128 && topology.ValidInterface("x"+string(r)) {
			return r
		}
		return '-'
	}, path)
	if !topology.ValidInterface(name) || taken[name] {
		name = fmt.Sprintf("path-%d", i)
		for taken[name] {
			name += "x"
		}
	}
	taken[name] = true
	return name
}
