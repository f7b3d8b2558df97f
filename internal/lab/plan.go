package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

// defaultCongestion is the congestion control of a namespace's sockets where
// no route says otherwise.
const defaultCongestion = "net.ipv4.tcp_congestion_control"

// Verb says what an operation does.
type Verb string

// The verbs, in the order in which a plan applies them. Operations of one verb
// do not depend on each other, except that those of one node keep their order.
const (
	CreateNode  Verb = "node"    // make a network namespace, bring lo up
	SetSysctl   Verb = "sysctl"  // set one value of the namespace
	ShareEgress Verb = "share"   // make a token bucket for all interfaces of a node
	AddLink     Verb = "link"    // make a veth pair, or a cable's two devices
	JoinEgress  Verb = "join"    // put an interface behind the shared token bucket
	AddTunnel   Verb = "tunnel"  // make one end of a tunnel between nodes
	JoinSwitch  Verb = "switch"  // bridge an interface of an endpoint and its link
	SetAddress  Verb = "address" // give an interface its address and bring it up
	MeterRate   Verb = "egress"  // put a token bucket on an interface
	AddRoute    Verb = "route"   // add a static route
	SetFilter   Verb = "filter"  // put the node's packet filter in place
	TimeWork    Verb = "time"    // stamp packets on entry and leaving, if possible
	RunCable    Verb = "cable"   // start the process that carries a cable's frames
	RunAgent    Verb = "agent"   // start the program of a node
	SpreadFlow  Verb = "spread"  // spread flows over several ways
	Balance     Verb = "balance" // balance flows among back ends
)

// Operation is one step of a plan. Which fields count depends on the verb.
type Operation struct {
	Verb Verb
	Node string // every verb but AddLink and RunCable
	Link int    // AddLink, JoinEgress, JoinSwitch, RunCable: index into Topology.Links

	// NoPrefixRoute keeps the kernel from adding the subnet's route with the
	// address, because the plan adds its own.
	NoPrefixRoute bool // SetAddress

	Interface  string       // SetAddress, MeterRate, AddRoute
	Address    netip.Prefix // SetAddress
	Route      Route        // AddRoute
	Congestion string       // AddRoute: congestion control of connections over it

	Key, Value string // SetSysctl
	// Wish marks a sysctl that may be refused: it is recorded, not an error.
	Wish bool

	Interfaces []string // TimeWork

	Filter  filter.Table    // SetFilter
	Tunnel  Tunnel          // AddTunnel
	MTU     int             // JoinEgress: of the interface, in bytes
	Spread  *filter.Spread  // SpreadFlow
	Balance *filter.Balance // Balance

	bucket tokenBucket // MeterRate, ShareEgress, JoinEgress
	text   string      // AddLink, JoinSwitch, RunCable, ShareEgress
}

// String is the operation as a line of the plan.
func (o Operation) String() string {
	switch o.Verb {
	case CreateNode, RunAgent:
		return fmt.Sprintf("%s %s", o.Verb, o.Node)
	case SetSysctl:
		wish := ""
		if o.Wish {
			wish = " if possible"
		}
		return fmt.Sprintf("sysctl %s %s=%s%s", o.Node, o.Key, o.Value, wish)
	case AddLink, RunCable:
		return fmt.Sprintf("%s %s", o.Verb, o.text)
	case AddTunnel:
		return fmt.Sprintf("tunnel %s:%s", o.Node, o.Tunnel)
	case JoinEgress:
		return fmt.Sprintf("join %s:%s to %s by %s", o.Node, o.Interface, sharedDevice, sharedPort(o.Link))
	case JoinSwitch:
		return fmt.Sprintf("switch %s %s: %s", o.Node, o.Interface, o.text)
	case SetAddress:
		flag := ""
		if o.NoPrefixRoute {
			flag = " noprefixroute"
		}
		return fmt.Sprintf("address %s:%s %s%s", o.Node, o.Interface, o.Address, flag)
	case MeterRate:
		return fmt.Sprintf("egress %s:%s %s", o.Node, o.Interface, o.bucket)
	case TimeWork:
		return fmt.Sprintf("time %s:%s if possible", o.Node, strings.Join(o.Interfaces, ","))
	case SetFilter:
		return fmt.Sprintf("filter %s %s", o.Node, o.Filter)
	case ShareEgress:
		return fmt.Sprintf("share %s:%s among %s: %s", o.Node, o.Interface, o.text, o.bucket)
	case SpreadFlow:
		return fmt.Sprintf("spread %s %s", o.Node, o.Spread)
	case Balance:
		return fmt.Sprintf("balance %s %s", o.Node, o.Balance)
	case AddRoute:
		var b strings.Builder
		fmt.Fprintf(&b, "route %s %s", o.Node, o.Route.Destination)
		if o.Route.Via.IsValid() {
			fmt.Fprintf(&b, " via %s", o.Route.Via)
		}
		fmt.Fprintf(&b, " dev %s", o.Route.Interface)
		if o.Route.Source.IsValid() {
			fmt.Fprintf(&b, " src %s", o.Route.Source)
		}
		if o.Congestion != "" {
			fmt.Fprintf(&b, " congctl %s", o.Congestion)
		}
		return b.String()
	}
	return string(o.Verb)
}

// Plan is the ordered list of operations that build a topology.
type Plan []Operation

// String is the plan as text, one operation per line.
func (p Plan) String() string {
	var b strings.Builder
	for _, o := range p {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// wishedSysctls are set in every node where the kernel allows it.
//   - IPv6 off: no neighbour discovery and router solicitation as noise.
//   - rp_filter 0: several paths join the same two nodes.
//   - icmp_ratemask 0: a trace may probe a node as fast as it likes. With
//     icmp_ratelimit 0, the limit of a namespace (icmp_msgs_per_sec, bursts of
//     50; icmpv4_global_allow in net/ipv4/icmp.c) would still silence a node.
//   - tcp_no_metrics_save 1: one trial must not teach the next its ssthresh.
//   - ping_group_range: ICMP sockets without CAP_NET_RAW; group 0 is the only
//     one that the user namespace maps.
var wishedSysctls = [][2]string{
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

// leastPrefix marks a value that is a lower bound of the third number.
const leastPrefix = "max>="

// Plan lists the operations that build t. It fails when t is not valid.
func (t Topology) Plan() (Plan, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	var plan Plan
	for _, n := range t.Nodes {
		plan = append(plan, Operation{Verb: CreateNode, Node: n.Name})
	}
	for _, n := range t.Nodes {
		plan = append(plan, nodeSysctls(n)...)
	}
	meters, joins := sharedMeters(t)
	plan = append(plan, meters...)
	for i, l := range t.Links {
		plan = append(plan, Operation{Verb: AddLink, Link: i, text: linkText(l)})
	}
	plan = append(plan, joins...)
	plan = append(plan, tunnelDevices(t)...)
	plan = append(plan, switchPorts(t)...)
	congestion, shares := make(map[string]string), make(map[string]bool)
	for _, n := range t.Nodes {
		congestion[n.Name], shares[n.Name] = n.CongestionControl, n.ShareEgress
	}
	for i := range t.Links {
		for _, e := range []End{t.Links[i].A, t.Links[i].B} {
			algorithm := congestion[e.Node]
			plan = append(plan, Operation{
				Verb: SetAddress, Node: e.Node, Interface: e.Interface, Address: e.Address,
				NoPrefixRoute: algorithm != "",
			})
			if e.EgressBitsPerSecond > 0 && !shares[e.Node] {
				plan = append(plan, Operation{Verb: MeterRate, Node: e.Node, Interface: e.Interface, bucket: egressBucket(e.EgressBitsPerSecond)})
			}
			if algorithm != "" {
				plan = append(plan, Operation{
					Verb: AddRoute, Node: e.Node, Congestion: algorithm,
					Route: Route{Destination: e.Address.Masked(), Interface: e.Interface, Source: e.Address.Addr()},
				})
			}
		}
	}
	plan = append(plan, tunnelAddresses(t)...)
	routes := t.routes()
	for _, n := range t.Nodes {
		for _, r := range routes[n.Name] {
			plan = append(plan, Operation{Verb: AddRoute, Node: n.Name, Route: r, Congestion: n.CongestionControl})
		}
		plan = append(plan, dividing(n)...)
	}
	for _, n := range t.Nodes {
		if n.Filter != nil {
			plan = append(plan, Operation{Verb: SetFilter, Node: n.Name, Filter: *n.Filter})
		}
	}
	plan = append(plan, stopwatches(t)...)
	for i, l := range t.Links {
		if l.Cable != nil {
			plan = append(plan, Operation{Verb: RunCable, Link: i, text: l.name() + " " + cableText(l)})
		}
	}
	for _, n := range t.Nodes {
		if n.Agent {
			plan = append(plan, Operation{Verb: RunAgent, Node: n.Name})
		}
	}
	return plan, nil
}

// stopwatches are on every interface of the nodes that have one.
func stopwatches(t Topology) []Operation {
	var ops []Operation
	for _, n := range t.Nodes {
		if !n.Stopwatch {
			continue
		}
		o := Operation{Verb: TimeWork, Node: n.Name}
		for _, l := range t.Links {
			for _, e := range []End{l.A, l.B} {
				if e.Node == n.Name {
					o.Interfaces = append(o.Interfaces, e.Interface)
				}
			}
		}
		ops = append(ops, o)
	}
	return ops
}

func nodeSysctls(n Node) []Operation {
	var ops []Operation
	set := func(key, value string, wish bool) {
		ops = append(ops, Operation{Verb: SetSysctl, Node: n.Name, Key: key, Value: value, Wish: wish})
	}
	for _, s := range wishedSysctls {
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
			set(key, fmt.Sprintf(leastPrefix+"%d", leastLargestBuffer), true)
		}
	}
	if n.CongestionControl != "" {
		// A namespace's default may only be an algorithm that the host allows
		// everyone (net.ipv4.tcp_allowed_congestion_control); the routes of
		// the node name the algorithm too, and that is always possible.
		set(defaultCongestion, n.CongestionControl, true)
	}
	keys := make([]string, 0, len(n.Sysctls))
	for key := range n.Sysctls {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		set(key, n.Sysctls[key], false)
	}
	return ops
}

func (l Link) name() string {
	return fmt.Sprintf("%s:%s--%s:%s", l.A.Node, l.A.Interface, l.B.Node, l.B.Interface)
}

func linkText(l Link) string {
	kind := "veth"
	if l.Cable != nil {
		kind = "cable"
	}
	return fmt.Sprintf("%s %s mtu %d", l.name(), kind, l.mtu())
}

func cableText(l Link) string {
	c := l.Cable
	offload := ""
	if c.NoOffload {
		offload = ", in single segments"
	}
	if c.Forward == c.Backward {
		return "both ways" + directionText(c.Forward) + offload + l.IDPS.text()
	}
	return "forward" + directionText(c.Forward) + " backward" + directionText(c.Backward) + offload + l.IDPS.text()
}
