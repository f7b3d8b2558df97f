package filter

import (
	"encoding/binary"
	"fmt"
	"net/netip"

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
// that no packet meets half a rule set.
func (b *builder) build(t Table) error {
	b.conn.AddTable(b.table)
	if t.drops() {
		b.refuse = b.chain("refuse")
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

// firewallRules makes the rules that a new flow is held against: each looks for
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
	forward := b.base("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, policy)
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
		copy(name, n.Interface)
		match := []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, equal(name)}
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
