package hostinfo

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// netDir is /proc/net of the calling thread; /proc/net itself is that of the
// process's first thread (proc_net in fs/proc/proc_net.c).
const netDir = "/proc/thread-self/net/"

// ReadDrops reads the counters of packets lost on this host. A source that
// cannot be read is left out; an error comes when none can.
//
// A queueing discipline without drops is left out, too.
//
// The counters of the network namespace are those of all its traffic, not of a
// test's alone.
func ReadDrops() (DropCounts, error) {
	var counts DropCounts
	var errs []error
	sources := []struct {
		file  string
		parse func([]byte, *DropCounts) error
	}{
		{"dev", parseNetDev}, {"softnet_stat", parseSoftnet},
		{"snmp", parseSNMP}, {"netstat", parseSNMP}, {"snmp6", parseSNMP6},
	}
	for _, s := range sources {
		text, err := readProc(netDir + s.file)
		if err == nil {
			err = s.parse(text, &counts)
		}
		errs = append(errs, err)
	}
	queues, err := readQdiscs()
	for _, q := range queues {
		if q.drops == 0 {
			continue // and spare the look-up of the name
		}
		counts.add(fmt.Sprintf("%s queue (%s)", interfaceName(q.index), q.kind), q.drops)
	}
	errs = append(errs, err)
	if len(counts.Places) == 0 {
		return DropCounts{}, fmt.Errorf("read counters of lost packets: %w", errors.Join(errs...))
	}
	return counts, nil
}

func (c *DropCounts) add(place string, packets uint64) {
	c.Places = append(c.Places, DropCount{Place: place, Packets: packets})
}

// parseNetDev reads what the interfaces of /proc/net/dev lost.
func parseNetDev(text []byte, counts *DropCounts) error {
	all, err := parseInterfaces(text)
	for _, i := range all {
		counts.add(i.name+" receive errors", i.ReceiveErrors)
		counts.add(i.name+" receive drops", i.ReceiveDrops)
		counts.add(i.name+" transmit errors", i.SendErrors)
		counts.add(i.name+" transmit drops", i.SendDrops)
	}
	return err
}

// parseSoftnet reads /proc/net/softnet_stat (softnet_seq_show in
// net/core/net-procfs.c): per CPU, hexadecimal, packets processed,
// dropped because the backlog was full, and squeezes. The counters are of 32
// bits each and the whole host's.
func parseSoftnet(text []byte, counts *DropCounts) error {
	var dropped, squeezed uint64
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 3 {
			return fmt.Errorf("/proc/net/softnet_stat: %d columns, want at least 3", len(fields))
		}
		for i, to := range map[int]*uint64{1: &dropped, 2: &squeezed} {
			n, err := strconv.ParseUint(string(fields[i]), 16, 32)
			if err != nil {
				return fmt.Errorf("/proc/net/softnet_stat: %w", err)
			}
			*to += n
		}
	}
	counts.Places = append(counts.Places, DropCount{Place: "softnet backlog", Packets: dropped, HostWide: true})
	counts.Squeezes = squeezed
	return nil
}

// places names the counters of lost packets in /proc/net/snmp, netstat and
// snmp6 (net/ipv4/proc.c, net/ipv6/proc.c). Left out is what another counts
// already (TcpExt RcvPruned ends in TCPRcvQDrop; Ip OutDiscards and Udp
// SndbufErrors are queueing disciplines' drops told to a sender; Tcp InErrs has each repeated
// SYN, of which there are some wherever a round trip takes more than a second), what the path
// damaged and so lost (InCsumErrors), and what was
// refused to a sender and not lost (Udp SndbufErrors of a socket that does not
// block: send(2) said so).
var places = map[string]string{
	"Ip.InDiscards":            "IPv4 receive",
	"Ip6InDiscards":            "IPv6 receive",
	"Udp.RcvbufErrors":         "UDP receive buffer",
	"Udp6RcvbufErrors":         "UDP receive buffer (IPv6)",
	"Udp.MemErrors":            "UDP memory",
	"Udp6MemErrors":            "UDP memory (IPv6)",
	"TcpExt.ListenDrops":       "TCP listen queue",
	"TcpExt.TCPBacklogDrop":    "TCP socket backlog",
	"TcpExt.TCPRcvQDrop":       "TCP receive queue",
	"TcpExt.TCPOFODrop":        "TCP out-of-order queue",
	"TcpExt.TCPZeroWindowDrop": "TCP beyond a closed window",
	"TcpExt.PFMemallocDrop":    "memory kept for reclaim",
}

// parseSNMP reads /proc/net/snmp and netstat: pairs of lines that begin with
// the same word, the first with names and the second with values.
func parseSNMP(text []byte, counts *DropCounts) error {
	var group string
	var names []string
	for line := range strings.Lines(string(text)) {
		head, rest, found := strings.Cut(line, ":")
		if !found {
			return fmt.Errorf("/proc/net/snmp: a line without a colon")
		}
		fields := strings.Fields(rest)
		if names == nil {
			group, names = head, fields
			continue
		}
		if head != group || len(fields) != len(names) {
			return fmt.Errorf("/proc/net/snmp: %d names of %s are followed by %d values of %s", len(names), group, len(fields), head)
		}
		for i, name := range names {
			if err := counts.addPlace(group+"."+name, fields[i]); err != nil {
				return err
			}
		}
		names = nil
	}
	return nil
}

// parseSNMP6 reads /proc/net/snmp6: a name and a value on each line.
func parseSNMP6(text []byte, counts *DropCounts) error {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return fmt.Errorf("/proc/net/snmp6: %d columns, want 2", len(fields))
		}
		if err := counts.addPlace(fields[0], fields[1]); err != nil {
			return err
		}
	}
	return nil
}

// addPlace adds a counter by its kernel name if it is one of places.
func (c *DropCounts) addPlace(name, value string) error {
	place, wanted := places[name]
	if !wanted {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return fmt.Errorf("read counter %s: %w", name, err)
	}
	c.add(place, n)
	return nil
}
