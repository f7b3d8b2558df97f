package filter

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
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

// distribute puts rules that track flows in place.
func distribute(n Namespace, rules func() error) error {
	return n.Within(func() error {
		if err := rules(); err != nil {
			return err
		}
		// Only now: their files appear with the first rule that tracks.
		for _, s := range trackingSysctls {
			if err := n.TrySysctl(s[0], s[1]); err != nil {
				return err
			}
		}
		return nil
	})
}
