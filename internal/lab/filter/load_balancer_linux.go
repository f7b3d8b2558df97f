package filter

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// balanceTable is one of its own, so that it combines with others.
const balanceTable = "hopbench-balance"

var _ Applier = Balance{}

// Apply has the node balance flows. It counts nothing.
func (b Balance) Apply(n Namespace) (Counting, error) { return nil, distribute(n, b.SetRules) }

// SetRules makes b true of the calling thread's network namespace, in place of
// what an earlier SetRules did there, in one step. Flows that have begun stay
// where they are.
func (b Balance) SetRules() error {
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
