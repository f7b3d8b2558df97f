package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/plan"
)

// Of connection tracking in a namespace: how many connections its table has,
// and how many it may have.
const (
	connectionCount = "net.netfilter.nf_conntrack_count"
	connectionMax   = "net.netfilter.nf_conntrack_max"
)

// setFilter puts a node's packet filter in place and opens what it counts.
func (b *Builder) setFilter(o plan.SetFilter) error {
	n, t := b.nodes[o.Node], o.Table
	applied, err := filter.Apply(int(n.ns.Fd()), t)
	if err != nil {
		return err
	}
	n.filter = applied
	if !t.Tracks() {
		return nil
	}
	// A file of /proc/sys stays that of the namespace of the thread that opened it.
	err = n.Within(func() (err error) {
		n.connections, err = os.Open(SysctlPath(connectionCount))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		n.refused = append(n.refused, fmt.Sprintf("node %s: the size of its connection table cannot be read: %v", n.spec.Name, err))
		return nil
	}
	return err
}

// countFilter adds what the node's packet filter counts.
func (n *Node) countFilter(c *NodeCounters) error {
	if n.filter != nil {
		dropped, err := n.filter.Dropped()
		if err != nil {
			return err
		}
		c.FilterDropped = dropped
	}
	if n.connections == nil {
		return nil
	}
	var text [32]byte // a number of at most ten digits
	size, err := n.connections.ReadAt(text[:], 0)
	if size == 0 {
		return fmt.Errorf("read %s: %w", connectionCount, err)
	}
	count, err := strconv.ParseUint(strings.TrimSpace(string(text[:size])), 10, 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", connectionCount, err)
	}
	c.Connections = &count
	return nil
}

// ConnectionLimit is how many connections the node's table may have. Only the
// host's own namespace may set it.
func (n *Node) ConnectionLimit() (key, value string, err error) {
	err = n.Within(func() error {
		value, err = ReadSysctl(connectionMax)
		return err
	})
	return connectionMax, value, err
}
