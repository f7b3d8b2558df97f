package apply

import (
	"cmp"
	"fmt"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// spreadTable is the number before that of the first routing table for the ways
// of a node that spreads flows, and the preference before that of its rule.
const spreadTable = 1000

// trackingSysctls ease the connection tracking of nodes that distribute flows; a
// kernel that refuses them only tracks more than it needs to.
//   - be_liberal: a packet that does not fit the window belongs to its flow all
//     the same. Such nodes distribute flows, they do not judge them.
//   - time_wait and close: a test of short connections makes hundreds of
//     thousands in a minute, and the table must not fill with those that ended.
var trackingSysctls = [][2]string{
	{"net.netfilter.nf_conntrack_tcp_be_liberal", "1"},
	{"net.netfilter.nf_conntrack_tcp_timeout_time_wait", "1"},
	{"net.netfilter.nf_conntrack_tcp_timeout_close", "1"},
}

func (b *Builder) spreadFlows(o plan.SpreadFlows) error {
	n := b.nodes[o.Node]
	for i, w := range o.Spread.Ways {
		if err := n.addWay(i+1, w.Interface, w.Via.AsSlice()); err != nil {
			return fmt.Errorf("way over %s: %w", w.Interface, err)
		}
	}
	return n.distribute(o.Spread.Apply)
}

func (b *Builder) balanceFlows(o plan.BalanceFlows) error {
	return b.nodes[o.Node].distribute(o.Balance.Apply)
}

// distribute puts rules that track flows in place.
func (n *Node) distribute(rules func() error) error {
	return n.Within(func() error {
		if err := rules(); err != nil {
			return err
		}
		// Only now: their files appear with the first rule that tracks.
		for _, s := range trackingSysctls {
			if err := n.setSysctl(plan.SetSysctl{Node: n.spec.Name, Key: s[0], Value: s[1], Optional: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

// addWay routes packets with a mark over an interface.
func (n *Node) addWay(mark int, device string, via []byte) error {
	link, err := n.handle.LinkByName(device)
	if err != nil {
		return err
	}
	table := spreadTable + mark
	route := netlink.Route{LinkIndex: link.Attrs().Index, Gw: via, Table: table}
	if err := n.handle.RouteAdd(&route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	rule := netlink.NewRule()
	rule.Family, rule.Mark, rule.Table, rule.Priority = unix.AF_INET, uint32(mark), table, table
	if err := n.handle.RuleAdd(rule); err != nil {
		return fmt.Errorf("policy rule (CONFIG_IP_MULTIPLE_TABLES): %w", err)
	}
	return nil
}

// Rescale has the node spread new flows over the first active of its ways. When
// those become fewer, the flows of the ways that go are forgotten: they would go
// on there. It is for one goroutine at a time.
func (n *Node) Rescale(active int) error {
	if n.spec.Spread == nil {
		return fmt.Errorf("node %s spreads no flows", n.spec.Name)
	}
	spread := *n.spec.Spread
	before := cmp.Or(n.activeWays, spread.Active)
	if before == active {
		return nil
	}
	spread.Active = active
	err := n.Within(func() error {
		if err := spread.Apply(); err != nil || active > before {
			return err
		}
		return forgetFlows()
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	n.activeWays = active
	return nil
}

// forgetFlows empties the connection table of the calling thread's namespace.
func forgetFlows() error {
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	if err := h.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("forget flows (CONFIG_NF_CT_NETLINK): %w", err)
	}
	return nil
}
