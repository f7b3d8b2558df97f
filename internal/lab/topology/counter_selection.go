package topology

import (
	"slices"
	"strings"
)

// interfaceMark separates a node from one of its interfaces in a Selection; no
// name of a node has it.
const interfaceMark = ":"

// InterfaceOf selects an interface of a node.
func InterfaceOf(node, name string) string { return node + interfaceMark + name }

// Selection are the nodes, or single interfaces of nodes, whose counters are
// asked for; all where there are none.
type Selection []string

// Node says whether the node or any interface of it is selected.
func (s Selection) Node(name string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(one string) bool {
		node, _, _ := strings.Cut(one, interfaceMark)
		return node == name
	})
}

// End says whether the end of a link is selected.
func (s Selection) End(e End) bool {
	return len(s) == 0 || slices.Contains(s, e.Node) || slices.Contains(s, InterfaceOf(e.Node, e.Interface))
}
