package filter

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Feature is a part of the kernel's nftables that tables need.
type Feature struct {
	Name   string
	Serves string // what is done with it
	Config string // the kernel's build option
	Module string // where it is not built in
	needed func(Table) bool
	family nftables.TableFamily // 0 for IPv4
	add    func(*builder) error
}

// Features lists what tables need, the one that all others build on first.
func Features() []Feature {
	forward := func(b *builder) *nftables.Chain {
		return b.base("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept)
	}
	return []Feature{
		{
			Name: "nftables", Serves: "silent nodes, and what firewalls and NAT are made of", Config: "CONFIG_NF_TABLES", Module: "nf_tables",
			needed: func(Table) bool { return true },
			add: func(b *builder) error {
				chain := forward(b)
				b.rule(chain, &expr.Counter{}, accept)
				return b.acceptPairs(chain, []Pair{{A: netip.IPv4Unspecified(), B: netip.IPv4Unspecified()}})
			},
		},
		{
			Name: "connection tracking", Serves: "stateful firewalls in nodes", Config: "CONFIG_NFT_CT", Module: "nft_ct",
			needed: func(t Table) bool { return t.Firewall != nil || t.FlowLimit > 0 },
			add: func(b *builder) error {
				b.rule(forward(b), append(stateIn(expr.CtStateBitESTABLISHED), accept)...)
				return nil
			},
		},
		{
			Name: "address translation", Serves: "NAT in nodes", Config: "CONFIG_NFT_NAT", Module: "nft_nat",
			needed: func(t Table) bool { return t.NAT != nil },
			add: func(b *builder) error {
				b.translate(NAT{Interface: "lo", Source: loopback, Public: loopback, Destination: loopback})
				return nil
			},
		},
		{
			Name: "connection counting", Serves: "limits of flows in gateways", Config: "CONFIG_NFT_CONNLIMIT", Module: "nft_connlimit",
			needed: func(t Table) bool { return t.FlowLimit > 0 },
			add: func(b *builder) error {
				b.rule(forward(b), &expr.Connlimit{Count: 1, Flags: expr.NFT_CONNLIMIT_F_INV}, accept)
				return nil
			},
		},
		{
			Name: "stamps on packets", Serves: "what the kernel spends on packets in a hop", Config: "CONFIG_NETFILTER_EGRESS and CONFIG_NFT_DUP_NETDEV, Linux 5.16", Module: "nft_dup_netdev",
			needed: func(Table) bool { return false },
			family: nftables.TableFamilyNetdev,
			add: func(b *builder) error {
				b.stamp(PacketStamps{Interfaces: []string{"lo"}, Gap: 1, Device: 1, Sink: "lo"})
				return nil
			},
		},
	}
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Try uses the feature in a network namespace, in a table that it takes away
// again.
func (f Feature) Try(netns int) error {
	conn, err := dial(netns)
	if err != nil {
		return err
	}
	defer conn.CloseLasting()
	b := builder{conn: conn, table: &nftables.Table{Family: cmp.Or(f.family, nftables.TableFamilyIPv4), Name: "hopbench-probe"}}
	conn.AddTable(b.table)
	if err := f.add(&b); err != nil {
		return err
	}
	if err := conn.commit(); err != nil {
		return err
	}
	conn.DelTable(b.table)
	return conn.commit()
}

// missing are the features that t needs and the kernel does not have.
func missing(netns int, t Table) []Feature {
	var without []Feature
	for _, f := range Features() {
		if f.needed(t) && f.Try(netns) != nil {
			without = append(without, f)
		}
	}
	return without
}

// explain says why a table was refused, given what the kernel turned out to
// lack: its own answer is a bare ENOENT.
func explain(err error, without []Feature) error {
	var lacks []string
	for _, f := range without {
		lacks = append(lacks, fmt.Sprintf("%s (%s; where it is a module: sudo modprobe %s)", f.Name, f.Config, f.Module))
	}
	if len(lacks) == 0 {
		return fmt.Errorf("put the packet filter in place: %w", err)
	}
	return fmt.Errorf("this kernel's packet filter lacks %s, or does not allow it here: %w", strings.Join(lacks, " and "), err)
}
