package filter

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// batch is how many rules go into one transaction. The kernel acknowledges each
// into the socket's receive buffer, of 208 KiB by default, before any is read;
// 250 do not fit, and it answers ENOBUFS although the rules are in place
// (google/nftables#103). How far the buffer may be raised differs from machine
// to machine.
const batch = 100

// perChain is how many of a firewall's rules stand in one chain: the kernel
// copies a whole chain for every transaction that adds to it
// (nf_tables_commit_chain_prepare in net/netfilter/nf_tables_api.c).
const perChain = 1000

// Registers of nftables that rules use: the first, and the four bytes after it
// for the second part of a concatenation (NFT_REG32_01 of linux/netfilter/nf_tables.h).
const (
	register     = 1
	registerNext = 9
)

// builder adds a table's parts to the namespace of its connection.
type builder struct {
	conn  *connection
	table *nftables.Table
	// refuse counts and drops.
	refuse *nftables.Chain
}

// build puts the table in place. The chains that packets enter come last, so
// that no packet sees half a rule set.
func (b *builder) build(t Table) error {
	b.conn.AddTable(b.table)
	if t.drops() {
		b.refuse = b.chain(refuseChain)
		b.rule(b.refuse, &expr.Counter{}, drop)
	}
	var rules []*nftables.Chain
	if t.Firewall != nil {
		var err error
		if rules, err = b.firewallRules(t.Firewall.Rules); err != nil {
			return err
		}
	}
	if err := b.forward(t, rules); err != nil {
		return err
	}
	if t.NAT != nil {
		b.translate(*t.NAT)
	}
	if t.Silent {
		output := b.base("output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept)
		b.rule(output, append(protocolIs(unix.IPPROTO_ICMP), drop)...)
	}
	return b.conn.commit()
}

// firewallRules makes the rules that a new flow is compared with: each looks for
// one source address and drops what has it.
func (b *builder) firewallRules(n int) ([]*nftables.Chain, error) {
	var chains []*nftables.Chain
	first := binary.BigEndian.Uint32(ruleRange.Addr().AsSlice())
	for i := range n {
		if i%batch == 0 {
			if err := b.conn.commit(); err != nil {
				return nil, err
			}
		}
		if i%perChain == 0 {
			chains = append(chains, b.chain(fmt.Sprintf("rules-%d", len(chains)+1)))
		}
		address := binaryutil.BigEndian.PutUint32(first + uint32(i))
		b.rule(chains[len(chains)-1], sourceAddress(register), equal(address), drop)
	}
	return chains, b.conn.commit()
}

// forward decides on packets that are forwarded.
func (b *builder) forward(t Table, rules []*nftables.Chain) error {
	if !t.drops() {
		return nil
	}
	policy := nftables.ChainPolicyAccept
	if t.Firewall != nil {
		policy = nftables.ChainPolicyDrop
	}
	forward := b.base(forwardChain, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, policy)
	refuse := &expr.Verdict{Kind: expr.VerdictGoto, Chain: b.refuse.Name}
	if f := t.Firewall; f != nil {
		known := expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
		if f.OneWay {
			known |= expr.CtStateBitINVALID
		}
		b.rule(forward, append(stateIn(known), accept)...)
		if !f.OneWay {
			b.rule(forward, append(stateIn(expr.CtStateBitINVALID), refuse)...)
		}
	}
	if t.FlowLimit > 0 {
		over := &expr.Connlimit{Count: uint32(t.FlowLimit), Flags: expr.NFT_CONNLIMIT_F_INV}
		b.rule(forward, append(stateIn(expr.CtStateBitNEW), over, refuse)...)
	}
	if t.Firewall == nil {
		return nil
	}
	for _, c := range rules {
		b.rule(forward, &expr.Verdict{Kind: expr.VerdictJump, Chain: c.Name})
	}
	if err := b.acceptPairs(forward, t.Firewall.Pairs); err != nil {
		return err
	}
	b.rule(forward, refuse)
	return nil
}

// acceptPairs is the rule that accepts a firewall's own traffic.
func (b *builder) acceptPairs(forward *nftables.Chain, allowed []Pair) error {
	protocols := &nftables.Set{Table: b.table, Anonymous: true, Constant: true, KeyType: nftables.TypeInetProto}
	err := b.conn.AddSet(protocols, []nftables.SetElement{
		{Key: []byte{unix.IPPROTO_ICMP}}, {Key: []byte{unix.IPPROTO_TCP}}, {Key: []byte{unix.IPPROTO_UDP}},
	})
	if err != nil {
		return err
	}
	pairs := &nftables.Set{
		Table: b.table, Name: "pairs", Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr),
	}
	var elements []nftables.SetElement
	for _, p := range allowed {
		elements = append(elements, element(p.A, p.B), element(p.B, p.A))
	}
	if err := b.conn.AddSet(pairs, elements); err != nil {
		return err
	}
	b.rule(forward,
		protocol, &expr.Lookup{SourceRegister: register, SetName: protocols.Name, SetID: protocols.ID},
		sourceAddress(register), destinationAddress(registerNext),
		&expr.Lookup{SourceRegister: register, SetName: pairs.Name, SetID: pairs.ID},
		accept,
	)
	return nil
}

// translate replaces addresses; connection tracking undoes it for what comes back.
func (b *builder) translate(n NAT) {
	to := func(a netip.Addr, kind expr.NATType) []expr.Any {
		return []expr.Any{
			&expr.Immediate{Register: register, Data: a.AsSlice()},
			&expr.NAT{Type: kind, Family: unix.NFPROTO_IPV4, RegAddrMin: register},
		}
	}
	if n.Public.IsValid() {
		chain := b.base("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, nftables.ChainPolicyAccept)
		match := []expr.Any{destinationAddress(register), equal(n.Public.AsSlice())}
		b.rule(chain, append(match, to(n.Destination, expr.NATTypeDestNAT)...)...)
	}
	if n.Source.IsValid() {
		chain := b.base("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
		name := make([]byte, interfaceNameBytes)
		copy(name, n.Inside)
		match := []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: name}}
		b.rule(chain, append(match, to(n.Source, expr.NATTypeSourceNAT)...)...)
	}
}

func (b *builder) chain(name string) *nftables.Chain {
	return b.conn.AddChain(&nftables.Chain{Table: b.table, Name: name})
}

// base is a chain that packets enter at a hook.
func (b *builder) base(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority, policy nftables.ChainPolicy) *nftables.Chain {
	return b.conn.AddChain(&nftables.Chain{Table: b.table, Name: name, Type: kind, Hooknum: hook, Priority: priority, Policy: &policy})
}

func (b *builder) rule(chain *nftables.Chain, expressions ...expr.Any) {
	b.conn.AddRule(&nftables.Rule{Table: b.table, Chain: chain, Exprs: expressions})
}

// Parts of rules. Offsets are of the IPv4 header (RFC 791, section 3.1).
var (
	accept   = &expr.Verdict{Kind: expr.VerdictAccept}
	drop     = &expr.Verdict{Kind: expr.VerdictDrop}
	protocol = &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 9, Len: 1, DestRegister: register}
)

func sourceAddress(into uint32) *expr.Payload {
	return &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4, DestRegister: into}
}

func destinationAddress(into uint32) *expr.Payload {
	return &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4, DestRegister: into}
}

func equal(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data}
}

func protocolIs(number byte) []expr.Any { return []expr.Any{protocol, equal([]byte{number})} }

// stateIn matches packets whose connection is in one of the states.
func stateIn(states uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(states), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
	}
}

func element(a, b netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: append(a.AsSlice(), b.AsSlice()...)}
}

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
		return b.base(forwardChain, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept)
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
				b.translate(NAT{Inside: "lo", Source: loopback, Public: loopback, Destination: loopback})
				return nil
			},
		},
		{
			Name: "connection counting", Serves: "limits of flows in vnet-gateways", Config: "CONFIG_NFT_CONNLIMIT", Module: "nft_connlimit",
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
