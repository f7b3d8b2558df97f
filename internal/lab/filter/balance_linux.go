package filter

import (
	"errors"
	"fmt"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The tables of this file, one for each job, so that they combine with others.
const (
	spreadTable  = "hopbench-spread"
	balanceTable = "hopbench-balance"
)

// The registers of 32 bits (enum nft_registers of linux/netfilter/nf_tables.h)
// that the rules here use. Those of 128 bits overlap them.
const (
	register0    = 8
	hashKeyBytes = 5 * 4
)

// hashSeed is fixed, so that the same ports always make the same choice.
const hashSeed = 0x686f7062

// hash leaves 0 to modulus-1, plus offset, in register0, made from a packet's addresses, ports
// and protocol, each in a register of its own. Packets of protocols without
// ports give what lies there: of an ICMP echo type, code and checksum. Only a
// flow's first packet is asked.
func hash(modulus, offset int) []expr.Any {
	load := func(register uint32, base expr.PayloadBase, at, length uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: base, Offset: at, Len: length}
	}
	return []expr.Any{
		load(register0, expr.PayloadBaseNetworkHeader, 12, 4),
		load(register0+1, expr.PayloadBaseNetworkHeader, 16, 4),
		load(register0+2, expr.PayloadBaseTransportHeader, 0, 2),
		load(register0+3, expr.PayloadBaseTransportHeader, 2, 2),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register0 + 4},
		&expr.Hash{
			Type: expr.HashTypeJenkins, SourceRegister: register0, Length: hashKeyBytes,
			DestRegister: register0, Modulus: uint32(modulus), Offset: uint32(offset), Seed: hashSeed,
		},
	}
}

// number is how nftables holds the numbers that it computes with itself, such
// as hashes, marks and indexes of interfaces.
func number(n int) []byte { return binaryutil.NativeEndian.PutUint32(uint32(n)) }

// base returns an emptied base chain at prerouting of a table that exists then.
func base(c *nftables.Conn, table string, kind nftables.ChainType, priority *nftables.ChainPriority) *nftables.Chain {
	t := c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: t, Type: kind, Hooknum: nftables.ChainHookPrerouting, Priority: priority,
	})
	c.FlushChain(chain)
	return chain
}

// anonymous adds a set or map to the transaction; it goes with the rule that
// uses it.
func anonymous(c *nftables.Conn, s *nftables.Set, elements []nftables.SetElement) error {
	s.Anonymous, s.Constant = true, true
	return c.AddSet(s, elements)
}

// lookup replaces what is in a register by what a map has for it.
func lookup(s *nftables.Set, register uint32) expr.Any {
	return &expr.Lookup{SourceRegister: register, DestRegister: register, IsDestRegSet: true, SetName: s.Name, SetID: s.ID}
}

func registerIs(register uint32, value []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value}
}

// Apply makes s true of the calling thread's network namespace, in place of
// what an earlier Apply did there, in one step: no packet sees half of it.
// Marks of packets that are to leave over a way say which, counted from 1; the
// caller has policy routes for them.
func (s Spread) Apply() error {
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

// Apply makes b true of the calling thread's network namespace, in place of
// what an earlier Apply did there, in one step. Flows that have begun stay
// where they are.
func (b Balance) Apply() error {
	if err := b.Validate(); err != nil {
		return fmt.Errorf("balance flows: %w", err)
	}
	return change("balance flows", func(c *nftables.Conn) error {
		chain := base(c, balanceTable, nftables.ChainTypeNAT, nftables.ChainPriorityNATDest)
		if len(b.Backends) == 0 {
			return nil
		}
		elements := make([]nftables.SetElement, len(b.Backends))
		for i, a := range b.Backends {
			elements[i] = nftables.SetElement{Key: number(i), Val: a.AsSlice()}
		}
		backends := &nftables.Set{Table: chain.Table, IsMap: true, KeyType: nftables.TypeInteger, DataType: nftables.TypeIPAddr}
		if err := anonymous(c, backends, elements); err != nil {
			return err
		}
		exprs := []expr.Any{
			&expr.Payload{DestRegister: register0, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
			registerIs(register0, b.Address.AsSlice()),
		}
		exprs = append(exprs, hash(len(b.Backends), 0)...)
		exprs = append(exprs,
			lookup(backends, register0),
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register0})
		c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: exprs})
		return nil
	})
}

// change does one transaction of the calling thread's namespace.
func change(what string, describe func(*nftables.Conn) error) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("%s: open netlink: %w", what, err)
	}
	if err := describe(c); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = c.Flush()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%s: this kernel lacks nftables or a part of it (CONFIG_NF_TABLES, CONFIG_NFT_CT, CONFIG_NFT_HASH, CONFIG_NFT_NAT): %w", what, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
