package apply

import (
	"cmp"
	"fmt"
)

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
