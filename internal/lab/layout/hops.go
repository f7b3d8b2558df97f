package layout

import (
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
)

// hopBuilders lay out one hop of each type; nil for one that is no node.
func hopBuilders() map[experiment.HopType]func(*pathBuilder, experiment.Hop) error {
	return map[experiment.HopType]func(*pathBuilder, experiment.Hop) error{
		experiment.Link:         nil,
		experiment.Router:       (*pathBuilder).router,
		experiment.Firewall:     (*pathBuilder).firewall,
		experiment.IDPS:         (*pathBuilder).idps,
		experiment.NAT:          (*pathBuilder).nat,
		experiment.LoadBalancer: (*pathBuilder).balancer,
		experiment.VNetGateway:  (*pathBuilder).gateway,
	}
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
