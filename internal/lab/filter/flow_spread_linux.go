package filter

import (
	"errors"
	"fmt"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// spreadTable is one of its own, so that it combines with others.
const spreadTable = "hopbench-spread"

// firstWayTable is the number before that of the first routing table for the ways
// of a node that spreads flows, and the preference before that of its rule.
const firstWayTable = 1000

var _ Applier = Spread{}

// Apply has the node spread flows. It counts nothing.
func (s Spread) Apply(n Namespace) (Counting, error) {
	return nil, distribute(n, func() error {
		for i, w := range s.Ways {
			if err := addWay(i+1, w.Interface, w.Via.AsSlice()); err != nil {
				return fmt.Errorf("way over %s: %w", w.Interface, err)
			}
		}
		return s.setRules()
	})
}

// Rescale has a node to which s was applied, with some other number of active ways,
// spread new flows over the first s.Active of them. When those become fewer, the
// flows of the ways that go are forgotten: they would go on there.
func (s Spread) Rescale(n Namespace, fewer bool) error {
	return n.Within(func() error {
		if err := s.setRules(); err != nil || !fewer {
			return err
		}
		return forgetFlows()
	})
}

// addWay routes packets with a mark over an interface of the calling thread's namespace.
func addWay(mark int, device string, via []byte) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	table := firstWayTable + mark
	route := netlink.Route{LinkIndex: link.Attrs().Index, Gw: via, Table: table}
	if err := netlink.RouteAdd(&route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	rule := netlink.NewRule()
	rule.Family, rule.Mark, rule.Table, rule.Priority = unix.AF_INET, uint32(mark), table, table
	if err := netlink.RuleAdd(rule); err != nil {
		return fmt.Errorf("policy rule (CONFIG_IP_MULTIPLE_TABLES): %w", err)
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

// setRules makes s true of the calling thread's network namespace, in place of
// what an earlier one did there, in one step: no packet sees half of it.
// Marks of packets that are to leave over a way say which, counted from 1; the
// caller has policy routes for them.
func (s Spread) setRules() error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("spread flows: %w", err)
	}
	indexes, marks := make([]nftables.SetElement, len(s.Ways)), make([]nftables.SetElement, len(s.Ways))
	for i, w := range s.Ways {
		way, err := net.InterfaceByName(w.Interface)
		if err != nil {
			return fmt.Errorf("spread flows: interface %s: %w", w.Interface, err)
		}
		indexes[i] = nftables.SetElement{Key: number(way.Index)}
		marks[i] = nftables.SetElement{Key: number(way.Index), Val: number(i + 1)}
	}
	return change("spread flows", func(c *nftables.Conn) error {
		chain := base(c, spreadTable, nftables.ChainTypeFilter, nftables.ChainPriorityMangle)
		rule := func(exprs ...expr.Any) {
			c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: exprs})
		}
		longer := &nftables.Set{Table: chain.Table, IsMap: true, KeyType: oneByte(), DataType: oneByte()}
		wayMarks := &nftables.Set{Table: chain.Table, IsMap: true, KeyType: nftables.TypeIFIndex, DataType: nftables.TypeMark}
		ways := &nftables.Set{Table: chain.Table, KeyType: nftables.TypeIFIndex}
		if err := errors.Join(anonymous(c, longer, timesToLive()), anonymous(c, wayMarks, marks), anonymous(c, ways, indexes)); err != nil {
			return err
		}
		flowMark := &expr.Ct{Key: expr.CtKeyMARK, Register: register0}
		unbound := registerIs(register0, number(0))
		incoming := &expr.Meta{Key: expr.MetaKeyIIF, Register: register0}
		rule(giveBackTTL(longer)...)
		// What begins beyond a way stays on it.
		rule(flowMark, unbound, incoming, lookup(wayMarks, register0), &expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: register0})
		rule(incoming, &expr.Lookup{SourceRegister: register0, SetName: ways.Name, SetID: ways.ID}, &expr.Verdict{Kind: expr.VerdictAccept})
		// What begins elsewhere is spread.
		rule(append(append([]expr.Any{flowMark, unbound}, hash(s.Active, 1)...), &expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: register0})...)
		rule(flowMark, &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register0})
		return nil
	})
}

// The place of the time to live and of the checksum in the IPv4 header (RFC
// 791, section 3.1).
const (
	ttlOffset      = 8
	checksumOffset = 10
)

// oneByte is the type of a time to live.
func oneByte() nftables.SetDatatype {
	t := nftables.SetDatatype{Name: nftables.TypeInteger.Name, Bytes: 1}
	t.SetNFTMagic(nftables.TypeInteger.GetNFTMagic())
	return t
}

// timesToLive map each time to live to the next longer one.
func timesToLive() []nftables.SetElement {
	all := make([]nftables.SetElement, 255)
	for i := range all {
		all[i] = nftables.SetElement{Key: []byte{byte(i)}, Val: []byte{byte(i + 1)}}
	}
	return all
}

// giveBackTTL adds the one to the time to live that forwarding takes.
func giveBackTTL(longer *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: register0, Base: expr.PayloadBaseNetworkHeader, Offset: ttlOffset, Len: 1},
		lookup(longer, register0),
		&expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: register0,
			Base: expr.PayloadBaseNetworkHeader, Offset: ttlOffset, Len: 1,
			CsumType: expr.CsumTypeInet, CsumOffset: checksumOffset,
		},
	}
}
