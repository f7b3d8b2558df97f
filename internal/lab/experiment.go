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
	Destination     netip.Addr
	// Hops are the addresses that a trace from the source must show, in order,
	// the destination last.
	Hops []netip.Addr
	// ReceivedTTL is what is left at the destination of InitialTTL.
	ReceivedTTL int
}

// FromExperiment lays every path of e out at once: its endpoints are shared
// nodes with one interface per path, its routers are nodes of that path alone.
// Rates are taken as they stand in e, so a scaled-down lab passes the scaled
// experiment.
//
// Path i, counted from 0, gets 10.i.0.0/16, of which link j from the source has
// the subnet 10.i.j.0/30: .1 nearer to the source, .2 nearer to the destination.
// Cables in a row, and the impairment of the router before them, are one link.
func FromExperiment(e *experiment.Experiment) (Topology, []Path, error) {
	var t Topology
	if len(e.Paths) > 256 {
		return t, nil, fmt.Errorf("%d paths: a lab has addresses for 256", len(e.Paths))
	}
	egress := make(map[string]float64, 2)
	for _, name := range []string{e.Source, e.Destination} {
		i := indexOf(e.Endpoints, name)
		if i < 0 {
			return t, nil, fmt.Errorf("endpoint %q is not among the experiment's endpoints", name)
		}
		endpoint := e.Endpoints[i]
		egress[name] = endpoint.EgressBitsPerSecond
		t.Nodes = append(t.Nodes, Node{
			Name: name, Agent: true,
			CongestionControl: cmp.Or(endpoint.CongestionControl, DefaultCongestionControl),
		})
	}
	taken := make(map[string]bool)
	var paths []Path
	for i, p := range e.Paths {
		built, err := layPath(&t, e, p, i, interfaceFor(p.Name, i, taken), egress)
		if err != nil {
			return Topology{}, nil, fmt.Errorf("path %s: %w", p.Name, err)
		}
		paths = append(paths, built)
	}
	return t, paths, t.Validate()
}

// layPath adds the nodes and links of path number i, whose interface at both
// endpoints is called name.
func layPath(t *Topology, e *experiment.Experiment, p experiment.Path, i int, name string, egress map[string]float64) (Path, error) {
	path := Path{Name: p.Name, SourceNode: e.Source, DestinationNode: e.Destination}
	previous := End{Node: e.Source, Interface: name, EgressBitsPerSecond: egress[e.Source]}
	var pending []experiment.Impairment
	links := 0
	join := func(next End) error {
		if links > 255 {
			return fmt.Errorf("more than 256 links: a lab has addresses for no more")
		}
		previous.Address = address(i, links, 1)
		next.Address = address(i, links, 2)
		t.Links = append(t.Links, Link{
			A: previous, B: next,
			Cable: cableOf(pending, p.Name, links),
		})
		path.Hops = append(path.Hops, next.Address.Addr())
		pending, links = nil, links+1
		return nil
	}
	routers := make(map[string]int)
	for _, hop := range p.Hops {
		switch hop.Type {
		case experiment.Cable:
			pending = append(pending, hop.Impairment)
		case experiment.Router:
			node := routerName(p.Name, hop.Name, routers)
			t.Nodes = append(t.Nodes, Node{Name: node, Forward: true})
			if err := join(End{Node: node, Interface: "to-source"}); err != nil {
				return path, err
			}
			previous = End{Node: node, Interface: "to-destination"}
			pending = append(pending, hop.Impairment)
		default:
			return path, fmt.Errorf("hop %s: the lab cannot build the type %q", hop.Name, hop.Type)
		}
	}
	if err := join(End{Node: e.Destination, Interface: name, EgressBitsPerSecond: egress[e.Destination]}); err != nil {
		return path, err
	}
	path.Source = address(i, 0, 1).Addr()
	path.Destination = address(i, links-1, 2).Addr()
	path.ReceivedTTL = InitialTTL - (links - 1)
	return path, nil
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

// routerName is unique in the lab: routers of different paths are different
// nodes although the experiment may give them one name.
func routerName(path, hop string, used map[string]int) string {
	name := path + "/" + cmp.Or(hop, "router")
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
