package hostinfo

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ReadInterface reads the counters of an interface in the network namespace of the
// calling thread.
func ReadInterface(name string) (InterfaceCounters, error) {
	text, err := readProc(netDir + "dev")
	if err != nil {
		return InterfaceCounters{}, err
	}
	return parseInterface(text, name)
}

// parseInterface finds an interface in /proc/net/dev.
func parseInterface(text []byte, name string) (InterfaceCounters, error) {
	all, err := parseInterfaces(text)
	var names []string
	for _, i := range all {
		if i.name == name {
			return i.InterfaceCounters, nil
		}
		names = append(names, i.name)
	}
	if err != nil {
		return InterfaceCounters{}, err
	}
	return InterfaceCounters{}, fmt.Errorf("no interface %q on this host, which has %s", name, strings.Join(names, ", "))
}

// namedCounters are those of an interface.
type namedCounters struct {
	name string
	InterfaceCounters
}

// parseInterfaces reads /proc/net/dev (dev_seq_printf_stats in
// net/core/net-procfs.c): per interface what was received as bytes packets
// errors drops fifo frame compressed multicast, then what was transmitted as
// bytes packets errors drops … . Errors include fifo and frame errors
// (rtnl_link_stats64 in linux/if_link.h). With an error come the interfaces before it.
func parseInterfaces(text []byte) (all []namedCounters, err error) {
	for line := range bytes.Lines(text) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue // the two lines of headings
		}
		fields := bytes.Fields(rest)
		if len(fields) < 12 {
			return all, fmt.Errorf("/proc/net/dev: %d columns, want at least 12", len(fields))
		}
		c := namedCounters{name: string(bytes.TrimSpace(name))}
		for i, to := range map[int]*uint64{
			0: &c.ReceivedBytes, 1: &c.ReceivedPackets, 2: &c.ReceiveErrors, 3: &c.ReceiveDrops,
			8: &c.SentBytes, 9: &c.SentPackets, 10: &c.SendErrors, 11: &c.SendDrops,
		} {
			if *to, err = strconv.ParseUint(string(fields[i]), 10, 64); err != nil {
				return all, fmt.Errorf("/proc/net/dev: %w", err)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// ReadConntrack reads the table of connections of the network namespace of the calling
// thread.
func ReadConntrack() (ConntrackCounters, error) {
	var c ConntrackCounters
	text, err := readProc(netDir + "stat/nf_conntrack")
	if err == nil {
		c, err = parseConntrack(text)
	}
	// These are of the namespace of the process, which is that of its threads but in a
	// lab.
	for name, to := range map[string]*uint64{"count": &c.Entries, "max": &c.MaxEntries} {
		value, errOne := strconv.ParseUint(line("/proc/sys/net/netfilter/nf_conntrack_"+name), 10, 64)
		*to, err = value, errors.Join(err, errOne)
	}
	return c, err
}

// parseConntrack adds up what each CPU has counted in /proc/net/stat/nf_conntrack
// (ct_cpu_seq_show in net/netfilter/nf_conntrack_standalone.c): a line of names, then
// one of hexadecimal numbers for each.
func parseConntrack(text []byte) (ConntrackCounters, error) {
	var c ConntrackCounters
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if names == nil {
			names = fields
			continue
		}
		if len(fields) != len(names) {
			return c, fmt.Errorf("/proc/net/stat/nf_conntrack: %d names are followed by %d values", len(names), len(fields))
		}
		for i, name := range names {
			to := map[string]*uint64{"drop": &c.Drops, "early_drop": &c.EarlyDrops, "insert_failed": &c.InsertFailures}[name]
			if to == nil {
				continue
			}
			n, err := strconv.ParseUint(fields[i], 16, 64)
			if err != nil {
				return c, fmt.Errorf("/proc/net/stat/nf_conntrack: %w", err)
			}
			*to += n
		}
	}
	if names == nil {
		return c, errors.New("/proc/net/stat/nf_conntrack is empty")
	}
	return c, nil
}
