package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/lab/topology"
)

// DefaultCongestion is the congestion control of a namespace's sockets where
// no route says otherwise.
const DefaultCongestion = "net.ipv4.tcp_congestion_control"

// optionalSysctls are set in every node where the kernel allows it.
//   - IPv6 off: no neighbour discovery and router solicitation as noise.
//   - rp_filter 0: several paths join the same two nodes.
//   - icmp_ratemask 0: a trace may probe a node as fast as it likes. With
//     icmp_ratelimit 0, the limit of a namespace (icmp_msgs_per_sec, bursts of
//     50; icmpv4_global_allow in net/ipv4/icmp.c) would still silence a node.
//   - tcp_no_metrics_save 1: one trial must not teach the next its ssthresh.
//   - ping_group_range: ICMP sockets without CAP_NET_RAW; group 0 is the only
//     one that the user namespace maps.
var optionalSysctls = [][2]string{
	{"net.ipv6.conf.all.disable_ipv6", "1"},
	{"net.ipv6.conf.default.disable_ipv6", "1"},
	{"net.ipv4.conf.all.rp_filter", "0"},
	{"net.ipv4.conf.default.rp_filter", "0"},
	{"net.ipv4.icmp_ratemask", "0"},
	{"net.ipv4.tcp_no_metrics_save", "1"},
	{"net.ipv4.ping_group_range", "0 0"},
}

// leastBuffers are sysctls of three numbers (least, initial and largest bytes
// of a TCP buffer) whose largest is raised where it is lower: 32 MiB in flight
// cover 10 Gbit/s over 25 ms.
var leastBuffers = [...]string{"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}

const leastLargestBuffer = 32 << 20

// AtLeast before a number marks a lower bound of the third number.
const AtLeast = "max>="

func nodeSysctls(n topology.Node) []Operation {
	var ops []Operation
	set := func(key, value string, optional bool) {
		ops = append(ops, SetSysctl{Node: n.Name, Key: key, Value: value, Optional: optional})
	}
	for _, s := range optionalSysctls {
		set(s[0], s[1], true)
	}
	if n.ShareEgress {
		// All its interfaces hear each question of ARP; only the one with the
		// address is to answer.
		set("net.ipv4.conf.all.arp_ignore", "1", false)
	}
	if n.Forward {
		set("net.ipv4.ip_forward", "1", false)
	}
	if n.Agent {
		for _, key := range leastBuffers {
			set(key, fmt.Sprintf(AtLeast+"%d", leastLargestBuffer), true)
		}
	}
	if n.CongestionControl != "" {
		// A namespace's default may only be an algorithm that the host allows
		// everyone (net.ipv4.tcp_allowed_congestion_control); the routes of
		// the node name the algorithm too, and that is always possible.
		set(DefaultCongestion, n.CongestionControl, true)
	}
	for _, key := range slices.Sorted(maps.Keys(n.Sysctls)) {
		set(key, n.Sysctls[key], false)
	}
	return ops
}
