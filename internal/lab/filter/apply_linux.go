package filter

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Applied is a table that is in force. Its methods may be used by one goroutine
// at a time.
type Applied struct{ builder }

// Apply puts t into the network namespace that the descriptor netns refers to.
// There it lasts as long as the namespace. The caller needs CAP_NET_ADMIN over
// it. When it fails for want of a part of the kernel, the error says which.
func Apply(netns int, t Table) (*Applied, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	conn, err := dial(netns)
	if err != nil {
		return nil, explain(err, missing(netns, t))
	}
	a := &Applied{builder{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "hopbench"}}}
	if err := a.build(t); err != nil {
		return nil, errors.Join(explain(err, missing(netns, t)), conn.CloseLasting())
	}
	return a, nil
}

// Dropped is how many packets the table refused to forward so far.
func (a *Applied) Dropped() (uint64, error) {
	if a.refuse == nil {
		return 0, nil
	}
	var rules []*nftables.Rule
	err := a.conn.limited(func() (err error) {
		rules, err = a.conn.GetRules(a.table, a.refuse)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the filter's counter: %w", err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				return c.Packets, nil
			}
		}
	}
	return 0, errors.New("read the filter's counter: its rule is gone")
}

// Close lets go of the connection to the kernel; the table stays.
func (a *Applied) Close() error { return a.conn.CloseLasting() }
