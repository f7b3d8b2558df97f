package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// Operation is one step of a plan: one of the types below. String is its line of
// the plan.
type Operation interface{ fmt.Stringer }

// CreateNode makes a network namespace and brings lo up.
type CreateNode struct{ Spec topology.Node }

func (o CreateNode) String() string { return "node " + o.Spec.Name }

// SetSysctl sets one value of a node's namespace.
type SetSysctl struct {
	Node, Key, Value string
	// Optional marks one that may be refused: it is recorded, not an error.
	Optional bool
}

func (o SetSysctl) String() string {
	condition := ""
	if o.Optional {
		condition = " if possible"
	}
	return fmt.Sprintf("sysctl %s %s=%s%s", o.Node, o.Key, o.Value, condition)
}

// ShareEgress makes a token bucket for all interfaces of a node.
type ShareEgress struct {
	Node       string
	Interfaces []string
	Bucket     TokenBucket
}

func (o ShareEgress) String() string {
	return fmt.Sprintf("share %s:%s among %s: %s", o.Node, topology.SharedDevice, strings.Join(o.Interfaces, ", "), o.Bucket)
}

// AddLink makes a veth pair, or the two devices of a link with impairments.
type AddLink struct {
	Index int // in Topology.Links
	Link  topology.Link
}

func (o AddLink) String() string {
	kind := "veth"
	if o.Link.Emulation != nil {
		kind = "emulated"
	}
	return fmt.Sprintf("link %s %s mtu %d", o.Link.Name(), kind, o.Link.EffectiveMTU())
}

// JoinEgress puts an interface behind the node's shared token bucket.
type JoinEgress struct {
	Node, Interface string
	Link            int // index in Topology.Links
	MTU             int // of the interface, in bytes
	Bucket          TokenBucket
}

func (o JoinEgress) String() string {
	return fmt.Sprintf("join %s:%s to %s by %s", o.Node, o.Interface, topology.SharedDevice, topology.SharedPort(o.Link))
}

// AddTunnel makes one end of a tunnel between nodes.
type AddTunnel struct {
	Node   string
	Tunnel topology.Tunnel
}

func (o AddTunnel) String() string { return fmt.Sprintf("tunnel %s:%s", o.Node, o.Tunnel) }

// JoinSwitch bridges an interface of an endpoint and its link.
type JoinSwitch struct {
	Link int // index in Topology.Links
	End  topology.End
}

func (o JoinSwitch) String() string {
	return fmt.Sprintf("switch %s %s: %s:%s by %s, link by %s", o.End.Switch, topology.SwitchBridge(o.Link),
		o.End.Node, o.End.Interface, topology.SwitchNodePort(o.Link), topology.SwitchLinkPort(o.Link))
}

// SetAddress gives an interface its address and brings it up.
type SetAddress struct {
	Node, Interface string
	Address         netip.Prefix
	// NoPrefixRoute keeps the kernel from adding the subnet's route with the
	// address, because the plan adds its own.
	NoPrefixRoute bool
}

func (o SetAddress) String() string {
	flag := ""
	if o.NoPrefixRoute {
		flag = " noprefixroute"
	}
	return fmt.Sprintf("address %s:%s %s%s", o.Node, o.Interface, o.Address, flag)
}

// MeterRate puts a token bucket on an interface.
type MeterRate struct {
	Node, Interface string
	Bucket          TokenBucket
}

func (o MeterRate) String() string {
	return fmt.Sprintf("egress %s:%s %s", o.Node, o.Interface, o.Bucket)
}

// AddRoute adds a static route.
type AddRoute struct {
	Node              string
	Route             topology.Route
	CongestionControl string // of connections over it, empty for the default
}

func (o AddRoute) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s %s", o.Node, o.Route.Destination)
	if o.Route.Via.IsValid() {
		fmt.Fprintf(&b, " via %s", o.Route.Via)
	}
	fmt.Fprintf(&b, " dev %s", o.Route.Interface)
	if o.Route.Source.IsValid() {
		fmt.Fprintf(&b, " src %s", o.Route.Source)
	}
	if o.CongestionControl != "" {
		fmt.Fprintf(&b, " congctl %s", o.CongestionControl)
	}
	return b.String()
}

// AddFunction has a node do more than route packets.
type AddFunction struct {
	Node     string
	Function filter.Function
	row      int // of the function in filter.Functions
}

func (o AddFunction) String() string { return o.Function.Line(o.Node) }

// RunLink starts the process that carries a link's frames.
type RunLink struct {
	Index int // in Topology.Links
	Link  topology.Link
}

func (o RunLink) String() string {
	return fmt.Sprintf("emulate %s %s", o.Link.Name(), impairments(o.Link))
}

// RunAgent starts the program of a node.
type RunAgent struct{ Node string }

func (o RunAgent) String() string { return "agent " + o.Node }
