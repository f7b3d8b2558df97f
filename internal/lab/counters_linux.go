package lab

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

func (s *supervisor) answerCounters(m message) {
	counters, err := s.counters(m.Nodes)
	answer := message{ID: m.ID, Counters: &counters}
	if err != nil {
		answer.Error = err.Error()
	}
	s.reply(answer)
}

// counters are those of the nodes that are asked for and of the cables at them.
func (s *supervisor) counters(of wanted) (Counters, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	var all Counters
	for _, n := range s.build.Topology.Nodes {
		if !of.node(n.Name) {
			continue
		}
		s.builder.mu.Lock()
		made := s.builder.nodes[n.Name]
		s.builder.mu.Unlock()
		if made == nil {
			return all, errors.New("the lab is not up yet")
		}
		counters, err := made.counters()
		if err != nil {
			return all, fmt.Errorf("node %s: %w", n.Name, err)
		}
		all.Nodes = append(all.Nodes, counters)
	}
	for i, l := range s.build.Topology.Links {
		s.mu.Lock()
		w := s.cables[i]
		s.mu.Unlock()
		if w == nil || !of.end(l.A) && !of.end(l.B) {
			continue
		}
		counters, err := w.cableCounters(uint64(i))
		if err != nil {
			return all, fmt.Errorf("cable %s: %w", l.name(), err)
		}
		counters.A, counters.B, counters.Read = l.A, l.B, time.Now()
		all.Cables = append(all.Cables, counters)
	}
	return all, nil
}

// cableCounters asks the process of a cable.
func (w *wire) cableCounters(id uint64) (CableCounters, error) {
	answer, err := w.askCable(message{Op: opCounters, ID: id})
	if err == nil && answer.Cable == nil {
		err = errors.New("its process sent none")
	}
	if err != nil {
		return CableCounters{}, err
	}
	return *answer.Cable, nil
}

// askCable sends a message to the process of a cable and returns its answer.
func (w *wire) askCable(m message) (message, error) {
	if err := w.send(m); err != nil {
		return message{}, err
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return message{}, err
	}
	answer, files, err := w.receive()
	closeAll(files)
	switch {
	case err != nil:
		return message{}, err
	case answer.Error != "":
		return message{}, errors.New(answer.Error)
	case answer.ID != m.ID:
		return message{}, errors.New("its process answered something else")
	}
	return answer, nil
}

func (n *node) counters() (NodeCounters, error) {
	c := NodeCounters{Node: n.spec.Name, Read: time.Now()}
	links, err := untilComplete(n.handle.LinkList)
	if err != nil {
		return c, err
	}
	qdiscs, err := untilComplete(func() ([]netlink.Qdisc, error) { return n.handle.QdiscList(nil) })
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
		if a.Name == "lo" || a.Name == stopwatchDevice || a.Name == stopwatchSink || a.Statistics == nil {
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
	if n.stopwatch != nil {
		spent := n.stopwatch.spent(received)
		c.KernelWork = &spent
	}
	err = n.countFilter(&c)
	return c, err
}

// untilComplete repeats a dump that a change interrupted.
func untilComplete[T any](dump func() ([]T, error)) ([]T, error) {
	for range 10 {
		list, err := dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

// recordedSysctls decide what TCP does in a node, so a result records them.
var recordedSysctls = []string{
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
	"net.ipv4.tcp_window_scaling",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_sack",
	"net.ipv4.tcp_ecn",
	"net.ipv4.tcp_no_metrics_save",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.ping_group_range",
}

// environment reads back what is in force in the nodes that run agents. A value
// that differs between them stands under "name@node" for each.
func (s *supervisor) environment() map[string]string {
	env := make(map[string]string)
	values := make(map[string]map[string]string) // key, node
	record := func(key, node, value string) {
		if values[key] == nil {
			values[key] = make(map[string]string)
		}
		values[key][node] = value
	}
	for _, spec := range s.build.Topology.Nodes {
		n := s.builder.nodes[spec.Name]
		if spec.Filter != nil && spec.Filter.Tracks() {
			s.recordLimit(n, record)
		}
		if !spec.Agent {
			continue
		}
		err := n.within(func() error {
			algorithm, err := readSysctl(defaultCongestion)
			switch {
			case err != nil:
				algorithm = spec.CongestionControl
			case spec.CongestionControl != "" && algorithm != spec.CongestionControl:
				algorithm = fmt.Sprintf("%s (by route; the namespace's default is %s)", spec.CongestionControl, algorithm)
			}
			record(defaultCongestion, spec.Name, algorithm)
			for _, key := range recordedSysctls {
				if value, err := readSysctl(key); err == nil { // a kernel may lack one: then it is not recorded
					record(key, spec.Name, value)
				}
			}
			return nil
		})
		if err != nil {
			s.addFact(fmt.Sprintf("the settings of node %s could not be read: %v", spec.Name, err))
		}
	}
	for key, byNode := range values {
		same, first := true, ""
		for _, v := range byNode {
			if first == "" {
				first = v
			}
			same = same && v == first
		}
		if same {
			env[key] = first
			continue
		}
		for node, v := range byNode {
			env[key+"@"+node] = v
		}
	}
	return env
}
