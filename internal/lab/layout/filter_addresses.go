package layout

import (
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// filterNode is a node of a path whose filter needs addresses that are known only
// when the whole path is laid out.
type filterNode struct {
	hop       int // index into Path.Hops
	node      string
	table     *filter.Table
	translate experiment.Translation // of a nat, else empty
	balances  bool                   // among the back ends
}

// replaces says whether packets have another destination behind the filterNode.
func (s filterNode) replaces() bool {
	return s.balances || s.translate == experiment.TranslateDestination || s.translate == experiment.TranslateBoth
}

// filtering adds a node that forwards and does to packets what table says and,
// when the hop is silent, sends no ICMP.
func (w *pathBuilder) filtering(hop experiment.Hop, table filter.Table) error {
	table.Silent = hop.Silent
	if err := w.forwarder(hop); err != nil {
		return err
	}
	w.setFilter(filterNode{hop: len(w.path.Hops) - 1, table: &table, translate: hop.Translate})
	return nil
}

// setFilter gives the last node its filter, if that does anything.
func (w *pathBuilder) setFilter(s filterNode) {
	if *s.table == (filter.Table{}) {
		return
	}
	node := &w.topology.Nodes[len(w.topology.Nodes)-1]
	node.Functions.Filter, s.node = s.table, node.Name
	w.filterNodes = append(w.filterNodes, s)
}

// resolveAddresses gives every filter of the path the addresses that packets have where
// it is, and the path what its source sees of them.
func (w *pathBuilder) resolveAddresses() {
	w.path.Listen = w.path.Destination
	sources := make([]netip.Addr, len(w.filterNodes)) // as packets from the source come in
	source := w.path.Source
	for i, s := range w.filterNodes {
		sources[i] = source
		if s.translate == experiment.TranslateSource || s.translate == experiment.TranslateBoth {
			source = w.outward(s.node).Address.Addr()
			s.table.NAT.Inside, s.table.NAT.Source = towardsSource, source
		}
	}
	destinations := []netip.Addr{w.path.Destination} // as packets from the source have them
	for _, b := range w.path.Backends[min(1, len(w.path.Backends)):] {
		destinations = append(destinations, b.Address)
	}
	var checker netip.Addr // which connects to the back ends, too
	if w.path.Balancer != "" {
		checker = w.outward(w.path.Balancer).Address.Addr()
	}
	for i, s := range slices.Backward(w.filterNodes) {
		if s.replaces() {
			public := w.path.Hops[s.hop]
			if !s.balances {
				s.table.NAT.Public, s.table.NAT.Destination = public, w.path.Destination
			}
			w.path.Destination, destinations, checker = public, []netip.Addr{public}, netip.Addr{}
			// The kernel puts the public address into the ICMP errors of every
			// hop behind, too (nf_nat_icmp_reply_translation in
			// net/netfilter/nf_nat_proto.c).
			for j := s.hop; j < len(w.path.Hops); j++ {
				w.path.Hops[j] = public
				delete(w.path.Others, j)
			}
		}
		if s.table.Firewall != nil {
			s.table.Firewall.Pairs = pairs(destinations, sources[i], checker)
			if len(w.path.Pairs) > 1 {
				s.table.Firewall.Pairs = w.allowed(sources[i])
			}
		}
	}
	for _, s := range w.filterNodes {
		if s.table.Silent {
			w.path.Hops[s.hop] = netip.Addr{}
			delete(w.path.Others, s.hop)
		}
	}
}

// pairs are those of each destination and each source that is valid.
func pairs(destinations []netip.Addr, sources ...netip.Addr) []filter.Pair {
	var all []filter.Pair
	for _, d := range destinations {
		for _, s := range sources {
			if s.IsValid() {
				all = append(all, filter.Pair{A: s, B: d})
			}
		}
	}
	return all
}

// outward is the end of a node towards the destination, the last if several lead there.
func (w *pathBuilder) outward(node string) topology.End {
	for _, l := range slices.Backward(w.topology.Links) {
		if l.A.Node == node {
			return l.A
		}
	}
	return topology.End{}
}
