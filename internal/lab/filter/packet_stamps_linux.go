package filter

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	stampTable = "hopbench-stamps"
	// stampMark is on packets between their stamps. It lasts until they leave
	// the namespace; nodes that give packets marks of their own have no sampler.
	stampMark = 0x686f7062
)

// Apply puts the stamping into the network namespace that the descriptor netns
// refers to. The first thing that happens to a packet there is the stamp (ingress
// hook of the interface), the last before its queue the other (egress hook, Linux
// 5.16): in between is what the node does to packets.
func (s PacketStamps) Apply(netns int) error {
	conn, err := dial(netns)
	if err != nil {
		return err
	}
	b := builder{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyNetdev, Name: stampTable}}
	conn.AddTable(b.table)
	b.stamp(s)
	if err := conn.commit(); err != nil {
		return errors.Join(fmt.Errorf("stamp packets (this needs %s): %w", stampConfig, err), conn.CloseLasting())
	}
	return conn.CloseLasting()
}

const stampConfig = "Linux 5.16 with CONFIG_NETFILTER_EGRESS, CONFIG_NFT_DUP_NETDEV and CONFIG_NFT_NUMGEN"

func (b *builder) stamp(s PacketStamps) {
	number, mark := binaryutil.NativeEndian.PutUint32, binaryutil.NativeEndian.PutUint32(stampMark)
	copied := []expr.Any{
		&expr.Immediate{Register: register, Data: number(uint32(s.Device))},
		&expr.Dup{RegDev: register, IsRegDevSet: true},
	}
	// A chain of its own, so that other packets cost no more than a random number.
	stamped := b.chain("stamped")
	b.rule(stamped, &expr.Immediate{Register: register, Data: mark}, &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register})
	for range StampsOnEntry {
		b.rule(stamped, copied...)
	}
	// What has been stamped is not to run into the stack again.
	b.rule(b.device(s.Sink, nftables.ChainHookIngress, nftables.ChainPolicyDrop), drop)
	for _, name := range s.Interfaces {
		b.rule(b.device(name, nftables.ChainHookIngress, nftables.ChainPolicyAccept),
			&expr.Numgen{Register: register, Modulus: uint32(s.Gap), Type: unix.NFT_NG_RANDOM}, equal(number(0)),
			&expr.Verdict{Kind: expr.VerdictGoto, Chain: stamped.Name},
		)
		leaving := []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: register}, equal(mark)}
		b.rule(b.device(name, nftables.ChainHookEgress, nftables.ChainPolicyAccept), append(leaving, copied...)...)
	}
}

// device is a chain that packets of one interface enter.
func (b *builder) device(name string, hook *nftables.ChainHook, policy nftables.ChainPolicy) *nftables.Chain {
	way := "in"
	if hook == nftables.ChainHookEgress {
		way = "out"
	}
	return b.conn.AddChain(&nftables.Chain{
		Table: b.table, Name: way + "-" + name, Type: nftables.ChainTypeFilter, Hooknum: hook,
		Priority: nftables.ChainPriorityFirst, Policy: &policy, Device: name,
	})
}
