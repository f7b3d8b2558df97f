package filter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Of connection tracking in a namespace: how many connections its table has,
// and how many it may have.
const (
	connectionCount = "net.netfilter.nf_conntrack_count"
	ConnectionMax   = "net.netfilter.nf_conntrack_max"
)

// Names of the table and of two of its chains.
const (
	tableName    = "hopbench"
	refuseChain  = "refuse"
	forwardChain = "forward"
)

var _ Applier = Table{}

// Apply puts the packet filter in place. It counts what it dropped, and the
// connections where it tracks them.
func (t Table) Apply(n Namespace) (Counting, error) {
	applied, err := Apply(n.Descriptor(), t)
	if err != nil {
		return nil, err
	}
	if !t.Tracks() {
		return applied.count, nil
	}
	// A file of /proc/sys stays that of the namespace of the thread that opened it.
	err = n.Within(func() (err error) {
		applied.connections, err = os.Open(SysctlPath(connectionCount))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		n.AddFact("the size of connection tables cannot be read: %v", err)
		err = nil
	}
	return applied.count, err
}

// count adds what the filter counts.
func (a *Applied) count(_ uint64, s *measurement.HopSample) error {
	dropped, err := a.Dropped()
	if err != nil {
		return err
	}
	s.DroppedPackets += float64(dropped)
	if a.connections == nil {
		return nil
	}
	var text [32]byte // a number of at most ten digits
	size, err := a.connections.ReadAt(text[:], 0)
	if size == 0 {
		return fmt.Errorf("read %s: %w", connectionCount, err)
	}
	count, err := strconv.ParseFloat(strings.TrimSpace(string(text[:size])), 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", connectionCount, err)
	}
	s.Connections = &count
	return nil
}

// ForgetFlows has a limit that is in force begin to count anew: the kernel remembers flows over
// UDP for minutes, and takes those that it has forgotten from the limit's list a few at a time.
func (t Table) ForgetFlows(n Namespace) error {
	if t.FlowLimit == 0 {
		return nil
	}
	if err := n.Within(forgetFlows); err != nil {
		return err
	}
	conn, err := dial(n.Descriptor())
	if err != nil {
		return err
	}
	b := builder{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}}
	b.refuse = &nftables.Chain{Name: refuseChain, Table: b.table}
	conn.FlushChain(&nftables.Chain{Name: forwardChain, Table: b.table})
	return errors.Join(b.forward(t, nil), conn.commit(), conn.CloseLasting())
}

// Applied is a table that is in force. Its methods may be used by one goroutine
// at a time.
type Applied struct {
	builder
	// connections is the size of the node's connection table, nil where it has none.
	connections *os.File
}

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
	a := &Applied{builder: builder{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}}}
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
