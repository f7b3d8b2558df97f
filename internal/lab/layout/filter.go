package layout

import (
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// rewriter is a node of a path whose filter needs addresses that are known only
// when the whole path is laid out.
type rewriter struct {
	hop       int // index into Path.Hops
	node      string
	table     *filter.Table
	translate experiment.Translation // of a nat, else empty
	balances  bool                   // among the back ends
}

// replaces says whether packets have another destination behind the rewriter.
func (s rewriter) replaces() bool {
	return s.balances || s.translate == experiment.TranslateDestination || s.translate == experiment.TranslateBoth
}

func (w *pathBuilder) router(hop experiment.Hop) error { return w.filtering(hop, filter.Table{}) }

func (w *pathBuilder) gateway(hop experiment.Hop) error {
	return w.filtering(hop, filter.Table{FlowLimit: hop.FlowLimit})
}

func (w *pathBuilder) firewall(hop experiment.Hop) error {
	return w.filtering(hop, firewallTable(hop))
}

func firewallTable(hop experiment.Hop) filter.Table {
	return filter.Table{Firewall: &filter.Firewall{Rules: hop.Rules, OneWay: hop.OneWay}}
}

// nat adds the silent hops of the provider, of which the translating node is
// the last: a trace through n of them to the destination shows n+1 hops, n of
// them silent.
func (w *pathBuilder) nat(hop experiment.Hop) error {
	for range hop.SilentHops - 1 {
		before := experiment.Hop{Type: experiment.Router, Name: hop.Name + "-provider", Silent: true}
		if err := w.router(before); err != nil {
			return err
		}
	}
	hop.Silent = hop.Silent || hop.SilentHops > 0
	return w.filtering(hop, filter.Table{NAT: &filter.NAT{}})
}

// filtering adds a node that forwards and does to packets what table says and,
// when the hop is silent, sends no ICMP.
func (w *pathBuilder) filtering(hop experiment.Hop, table filter.Table) error {
	table.Silent = hop.Silent
	if err := w.forwarder(hop); err != nil {
		return err
	}
	w.rewriter(rewriter{hop: len(w.path.Hops) - 1, table: &table, translate: hop.Translate})
	return nil
}

// rewriter gives the last node its filter, if that does anything.
func (w *pathBuilder) rewriter(s rewriter) {
	if *s.table == (filter.Table{}) {
		return
	}
	node := &w.topology.Nodes[len(w.topology.Nodes)-1]
	node.Filter, s.node = s.table, node.Name
	w.rewriters = append(w.rewriters, s)
}

// settle gives every filter of the path the addresses that packets have where
// it is, and the path what its source sees of them.
func (w *pathBuilder) settle() {
	w.path.Listen = w.path.Destination
	sources := make([]netip.Addr, len(w.rewriters)) // as packets from the source come in
	source := w.path.Source
	for i, s := range w.rewriters {
		sources[i] = source
		if s.translate == experiment.TranslateSource || s.translate == experiment.TranslateBoth {
			out := w.outward(s.node)
			s.table.NAT.Interface, s.table.NAT.Source = out.Interface, out.Address.Addr()
			source = out.Address.Addr()
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
	for i, s := range slices.Backward(w.rewriters) {
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
	for _, s := range w.rewriters {
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

// outward is the end of a node towards the destination.
func (w *pathBuilder) outward(node string) topology.End {
	for _, l := range slices.Backward(w.topology.Links) {
		if l.A.Node == node {
			return l.A
		}
	}
	return topology.End{}
}
