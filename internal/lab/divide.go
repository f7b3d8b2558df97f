package lab

import "net/netip"

// divided checks how a node divides flows.
func (f *faults) divided(n Node) {
	if n.Spread != nil {
		if err := n.Spread.Validate(); err != nil {
			f.add("node %s: spread: %w", n.Name, err)
		}
	}
	if n.Balance != nil {
		if err := n.Balance.Validate(); err != nil {
			f.add("node %s: balance: %w", n.Name, err)
		}
	}
	if (n.Spread != nil || n.Balance != nil) && !n.Forward {
		f.add("node %s: divides flows, but does not forward", n.Name)
	}
}

// dividing are the operations that make a node divide flows.
func dividing(n Node) []Operation {
	var ops []Operation
	if n.Spread != nil {
		ops = append(ops, Operation{Verb: SpreadFlow, Node: n.Name, Spread: n.Spread})
	}
	if n.Balance != nil {
		ops = append(ops, Operation{Verb: Balance, Node: n.Name, Balance: n.Balance})
	}
	return ops
}

// scale asks nodes to spread new flows over so many of their ways.
type scale struct {
	Nodes     []string `json:"nodes"`
	Instances int      `json:"instances"`
}

// watch asks for the health checks of a node's back ends.
type watch struct {
	Node string `json:"node"`
	Port uint16 `json:"port"` // of TCP, which a back end that is well accepts
}

// health is what a load balancer takes its back ends for.
type health struct {
	Node string `json:"node"`
	// Down are those that get no new flows.
	Down []netip.Addr `json:"down"`
}
