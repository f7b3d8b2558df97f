package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// spreadTable is the number before that of the first routing table for the ways
// of a node that spreads flows, and the preference before that of its rule.
const spreadTable = 1000

// trackingSysctls ease the connection tracking of nodes that divide flows; a
// kernel that refuses them only tracks more than it needs to.
//   - be_liberal: a packet that does not fit the window belongs to its flow all
//     the same. Such nodes divide flows, they do not judge them.
//   - time_wait and close: a test of short connections makes hundreds of
//     thousands in a minute, and the table must not fill with those that ended.
var trackingSysctls = [][2]string{
	{"net.netfilter.nf_conntrack_tcp_be_liberal", "1"},
	{"net.netfilter.nf_conntrack_tcp_timeout_time_wait", "1"},
	{"net.netfilter.nf_conntrack_tcp_timeout_close", "1"},
}

// divide applies a SpreadFlow or Balance operation.
func (b *builder) divide(o Operation) error {
	if err := b.nodes[o.Node].divide(o); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

func (n *node) divide(o Operation) error {
	if o.Verb == SpreadFlow {
		for i, w := range o.Spread.Ways {
			if err := n.addWay(i+1, w.Interface, w.Via.AsSlice()); err != nil {
				return fmt.Errorf("way over %s: %w", w.Interface, err)
			}
		}
	}
	return n.within(func() error {
		apply := func() error { return o.Balance.Apply() }
		if o.Verb == SpreadFlow {
			apply = func() error { return o.Spread.Apply() }
		}
		if err := apply(); err != nil {
			return err
		}
		// Only now: their files appear with the first rule that tracks.
		for _, s := range trackingSysctls {
			if err := n.setSysctl(Operation{Verb: SetSysctl, Node: o.Node, Key: s[0], Value: s[1], Wish: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

// addWay routes packets with a mark over an interface.
func (n *node) addWay(mark int, device string, via []byte) error {
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

// dividers is what the supervisor knows of nodes that divide flows.
type dividers struct {
	mu      sync.Mutex      // one change at a time
	active  map[string]int  // ways, by node, where they were changed
	watched map[string]bool // nodes whose back ends are
}

func (s *supervisor) answerScale(m message) {
	answer := message{ID: m.ID}
	if m.Scale == nil {
		answer.Error = "a request to scale that says nothing"
	} else if err := s.scale(*m.Scale); err != nil {
		answer.Error = err.Error()
	}
	s.reply(answer)
}

// scale makes nodes spread new flows over so many ways. When those become
// fewer, the flows of the ways that go are forgotten: they would go on there.
func (s *supervisor) scale(request scale) error {
	s.dividers.mu.Lock()
	defer s.dividers.mu.Unlock()
	for _, name := range request.Nodes {
		s.builder.mu.Lock()
		n := s.builder.nodes[name]
		s.builder.mu.Unlock()
		if n == nil || n.spec.Spread == nil {
			return fmt.Errorf("node %s spreads no flows", name)
		}
		before, changed := s.dividers.active[name]
		if !changed {
			before = n.spec.Spread.Active
		}
		if before == request.Instances {
			continue
		}
		spread := *n.spec.Spread
		spread.Active = request.Instances
		err := n.within(func() error {
			if err := spread.Apply(); err != nil || request.Instances > before {
				return err
			}
			return forgetFlows()
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		s.dividers.active[name] = request.Instances
	}
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

// Scale has new flows on a path spread over so many instances of a hop of the
// path's ScaleOuts. With more, the flows that have begun stay where they are;
// with fewer, all are spread anew.
func (l *Lab) Scale(ctx context.Context, p Path, hop string, instances int) error {
	i := slices.IndexFunc(p.ScaleOuts, func(s ScaleOut) bool { return s.Hop == hop })
	if i < 0 {
		return fmt.Errorf("scale hop %s of path %s: it does not grow", hop, p.Name)
	}
	_, err := l.request(ctx, message{Op: opScale, Scale: &scale{Nodes: p.ScaleOuts[i].Nodes, Instances: instances}}, nil, nil)
	if err != nil {
		return fmt.Errorf("scale hop %s of path %s to %d instances: %w", hop, p.Name, instances, err)
	}
	return nil
}
