package lab

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
)

// station is a node of a path whose filter needs addresses that are known only
// when the whole path is laid out.
type station struct {
	hop       int // index into Path.Hops
	node      string
	table     *filter.Table
	translate experiment.Translation // of a nat, else empty
}

func (w *walk) router(hop experiment.Hop) error { return w.filtering(hop, filter.Table{}) }

func (w *walk) gateway(hop experiment.Hop) error {
	return w.filtering(hop, filter.Table{FlowLimit: hop.FlowLimit})
}

func (w *walk) firewall(hop experiment.Hop) error {
	if hop.Instances > 1 || hop.ScaleOut != nil {
		return fmt.Errorf("hop %s: the lab cannot build a firewall of several instances", hop.Name)
	}
	return w.filtering(hop, filter.Table{Firewall: &filter.Firewall{Rules: hop.Rules, OneWay: hop.OneWay}})
}

// nat adds the silent hops of the provider, of which the translating node is
// the last: a trace through n of them to the destination shows n+1 hops, n of
// them silent.
func (w *walk) nat(hop experiment.Hop) error {
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
func (w *walk) filtering(hop experiment.Hop, table filter.Table) error {
	table.Silent = hop.Silent
	if err := w.forwarder(hop); err != nil {
		return err
	}
	if table == (filter.Table{}) {
		return nil
	}
	node := &w.topology.Nodes[len(w.topology.Nodes)-1]
	node.Filter = &table
	w.stations = append(w.stations, station{hop: len(w.path.Hops) - 1, node: node.Name, table: &table, translate: hop.Translate})
	return nil
}

// settle gives every filter of the path the addresses that packets have where
// it is, and the path what its source sees of them.
func (w *walk) settle() {
	w.path.Listen = w.path.Destination
	sources := make([]netip.Addr, len(w.stations)) // as packets from the source come in
	source := w.path.Source
	for i, s := range w.stations {
		sources[i] = source
		if s.translate == experiment.TranslateSource || s.translate == experiment.TranslateBoth {
			out := w.outward(s.node)
			s.table.NAT.Interface, s.table.NAT.Source = out.Interface, out.Address.Addr()
			source = out.Address.Addr()
		}
	}
	for i, s := range slices.Backward(w.stations) {
		if s.translate == experiment.TranslateDestination || s.translate == experiment.TranslateBoth {
			public := w.path.Hops[s.hop]
			s.table.NAT.Public, s.table.NAT.Destination = public, w.path.Destination
			w.path.Destination = public
			// The kernel puts the public address into the ICMP errors of every
			// hop behind, too (nf_nat_icmp_reply_translation in
			// net/netfilter/nf_nat_proto.c).
			for j := s.hop; j < len(w.path.Hops); j++ {
				w.path.Hops[j] = public
			}
		}
		if s.table.Firewall != nil {
			s.table.Firewall.Pairs = w.allowed(sources[i])
		}
	}
	for _, s := range w.stations {
		if s.table.Silent {
			w.path.Hops[s.hop] = netip.Addr{}
		}
	}
}

// outward is the end of a node towards the destination.
func (w *walk) outward(node string) End {
	for _, l := range slices.Backward(w.topology.Links) {
		if l.A.Node == node {
			return l.A
		}
	}
	return End{}
}
