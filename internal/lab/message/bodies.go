package message

import (
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// BuildRequest is what the supervisor needs to know.
type BuildRequest struct {
	Topology topology.Topology `json:"topology"`
	// Executable is the program of agents and of links with impairments.
	Executable  string   `json:"executable"`
	NodeCommand []string `json:"node_command,omitempty"`
}

// State is what the supervisor says of a lab that it has built.
type State struct {
	Environment map[string]string `json:"environment,omitempty"`
	Facts       []string          `json:"facts,omitempty"`
}

// Command is a program to run in a node.
type Command struct {
	Node string   `json:"node"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// Exit is how a command ended: Code, which is 128 plus the number of the signal
// when one killed it.
type Exit struct {
	Code int `json:"code"`
}

// Features are what a probe found: by name of a feature why it does not work,
// empty where it does.
type Features struct {
	Found map[string]string `json:"found"`
	Facts []string          `json:"facts,omitempty"`
}

// OuterPortsRequest asks for the UDP source ports of what leaves a node by an
// interface for a port.
type OuterPortsRequest struct {
	Node      string `json:"node"`
	Interface string `json:"interface"`
	Port      int    `json:"port"`
}

// ModeRequest sets the mode of the idps that is a node.
type ModeRequest struct {
	Node string    `json:"node"`
	Mode idps.Mode `json:"mode"`
}

// ScaleRequest asks nodes to spread new flows over so many of their ways.
type ScaleRequest struct {
	Nodes     []string `json:"nodes"`
	Instances int      `json:"instances"`
}

// WatchRequest asks for the health checks of a node's back ends.
type WatchRequest struct {
	Node string `json:"node"`
	Port uint16 `json:"port"` // of TCP, which a healthy back end accepts
	// RoundTrip is how long an answer of one takes by the delays on the way.
	RoundTrip time.Duration `json:"round_trip_nanoseconds,omitempty"`
}

// HealthReport is what a load balancer's health check found.
type HealthReport struct {
	Node string `json:"node"`
	// Down are the back ends that get no new flows.
	Down []netip.Addr `json:"down"`
}

// Counters are those of a whole lab at one moment.
type Counters struct {
	Nodes []apply.NodeCounters `json:"nodes"`
	Links []LinkCounters       `json:"links,omitempty"`
}

// LinkCounters are those of the process that carries a link emulator's frames. Forward
// is from A to B.
type LinkCounters struct {
	A topology.End `json:"a"`
	B topology.End `json:"b"`
	linkem.Counters
	// IDPS are those of the inspection, nil where there is none.
	IDPS *idps.Counters `json:"idps,omitempty"`
	// CPU is the CPU time of the process, user and system, so far.
	CPU time.Duration `json:"cpu_nanoseconds"`
}

// SwitchedPath is a path that shares its nodes and addresses with others.
type SwitchedPath struct {
	Name string `json:"name"`
	// Of is the path that has the nodes with all hops on, itself among them.
	Of string `json:"of"`
	// InForce says that the nodes are in this path's state. After a switch that
	// failed, no path of those nodes may be.
	InForce bool `json:"in_force,omitempty"`
}
