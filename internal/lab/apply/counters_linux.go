package apply

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

// Counters reads the kernel's counters of the node.
func (n *Node) Counters() (NodeCounters, error) {
	c := NodeCounters{Node: n.spec.Name, Read: time.Now()}
	links, err := UntilComplete(n.handle.LinkList)
	if err != nil {
		return c, err
	}
	qdiscs, err := UntilComplete(func() ([]netlink.Qdisc, error) { return n.handle.QdiscList(nil) })
	if err != nil {
		return c, err
	}
	dropped := make(map[int]uint64)
	for _, q := range qdiscs {
		if a := q.Attrs(); a.Statistics != nil && a.Statistics.Queue != nil {
			dropped[a.LinkIndex] += uint64(a.Statistics.Queue.Drops)
		}
	}
	var received uint64
	for _, l := range links {
		a := l.Attrs()
		if a.Name == "lo" || filter.IsSampler(a.Name) || a.Statistics == nil {
			continue
		}
		received += a.Statistics.RxPackets
		c.Interfaces = append(c.Interfaces, InterfaceCounters{
			Name:          a.Name,
			ReceivedBytes: a.Statistics.RxBytes, ReceivedPackets: a.Statistics.RxPackets, ReceivedDropped: a.Statistics.RxDropped,
			SentBytes: a.Statistics.TxBytes, SentPackets: a.Statistics.TxPackets, SentDropped: a.Statistics.TxDropped,
			EgressDropped: dropped[a.Index],
		})
	}
	for _, count := range n.counting {
		if err := count(received, &c.Functions); err != nil {
			return c, err
		}
	}
	return c, nil
}

// UntilComplete repeats a dump that a change interrupted.
func UntilComplete[T any](dump func() ([]T, error)) ([]T, error) {
	for range 10 {
		list, err := dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}
