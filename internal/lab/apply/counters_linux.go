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
	queues := make(map[int]queueCounters)
	for _, q := range qdiscs {
		of := queues[q.Attrs().LinkIndex]
		of.add(q)
		queues[q.Attrs().LinkIndex] = of
	}
	var received uint64
	for _, l := range links {
		a := l.Attrs()
		if a.Name == "lo" || filter.IsSampler(a.Name) || a.Statistics == nil {
			continue
		}
		received += a.Statistics.RxPackets
		queue := queues[a.Index]
		c.Interfaces = append(c.Interfaces, InterfaceCounters{
			Name:          a.Name,
			ReceivedBytes: a.Statistics.RxBytes, ReceivedPackets: a.Statistics.RxPackets, ReceivedDropped: a.Statistics.RxDropped,
			SentBytes: a.Statistics.TxBytes, SentPackets: a.Statistics.TxPackets, SentDropped: a.Statistics.TxDropped + queue.dropped,
			EgressDropped: queue.meterDropped, EgressBusy: queue.meterBusy,
		})
	}
	for _, count := range n.counting {
		if err := count(received, &c.Functions); err != nil {
			return c, err
		}
	}
	return c, nil
}

// queueCounters are those of the queueing disciplines of one interface: of its egress
// meter, and of what else there is.
type queueCounters struct {
	dropped, meterDropped uint64
	meterBusy             time.Duration
}

func (c *queueCounters) add(q netlink.Qdisc) {
	statistics := q.Attrs().Statistics
	if statistics == nil || statistics.Queue == nil {
		return
	}
	drops := uint64(statistics.Queue.Drops)
	meter, ok := q.(*netlink.Tbf)
	if !ok {
		c.dropped += drops
		return
	}
	c.meterDropped += drops
	if statistics.Basic != nil && meter.Rate > 0 {
		c.meterBusy += time.Duration(float64(statistics.Basic.Bytes) / float64(meter.Rate) * float64(time.Second))
	}
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
