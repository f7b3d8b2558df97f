package apply

import (
	"cmp"
	"fmt"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/plan"
)

// addFunction has a node do more than route packets.
func (b *Builder) addFunction(o plan.AddFunction) error {
	n := b.nodes[o.Node]
	function, can := o.Function.(filter.Applier)
	if !can {
		return fmt.Errorf("%T cannot be applied", o.Function)
	}
	count, err := function.Apply(namespace{n, b})
	if count != nil {
		n.counting = append(n.counting, count)
	}
	return err
}

// namespace is a node as its functions see it.
type namespace struct {
	*Node
	*Builder
}

func (n namespace) Descriptor() int { return int(n.ns.Fd()) }

func (n namespace) TrySysctl(key, value string) error {
	return n.setSysctl(plan.SetSysctl{Node: n.spec.Name, Key: key, Value: value, Optional: true})
}

// ForgetFlows has a limit of flows begin to count anew, if the node has one.
func (n *Node) ForgetFlows() error {
	table := n.spec.Functions.Filter
	if table == nil {
		return nil
	}
	if err := table.ForgetFlows(namespace{n, nil}); err != nil {
		return fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	return nil
}

// Rescale has the node spread new flows over the first active of its ways. It is for
// one goroutine at a time.
func (n *Node) Rescale(active int) error {
	if n.spec.Functions.Spread == nil {
		return fmt.Errorf("node %s spreads no flows", n.spec.Name)
	}
	spread := *n.spec.Functions.Spread
	before := cmp.Or(n.activeWays, spread.Active)
	if before == active {
		return nil
	}
	spread.Active = active
	if err := spread.Rescale(namespace{n, nil}, active < before); err != nil {
		return fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	n.activeWays = active
	return nil
}
