package apply

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/lab/topology"
)

// standbyMetric is that of a second route to a destination that is switched;
// the first has 0, which the kernel prefers.
const standbyMetric = 1 << 16

// ReplaceRoute adds a route in the place of the one to the same destination,
// and before that, one just like it with a larger metric. A packet whose lookup
// has found a route that is replaced before it is read (fib_dead in
// fib_table_lookup of net/ipv4/fib_trie.c) is passed on to the next in the
// list, and would be answered "unreachable" if there were none.
func (n *Node) ReplaceRoute(r topology.Route) error {
	link, err := n.handle.LinkByName(r.Interface)
	if err != nil {
		return fmt.Errorf("find the interface: %w", err)
	}
	for _, metric := range []int{standbyMetric, 0} {
		route := kernelRoute(r, n.spec.CongestionControl, link.Attrs().Index)
		route.Priority = metric
		if err := n.handle.RouteReplace(&route); err != nil {
			return err
		}
	}
	return nil
}
