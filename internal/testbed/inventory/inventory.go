// Package inventory reads testbed files: where the paths of an experiment are on
// real hosts, how their ends are reached, and how paths are switched. It gives
// values and reaches nobody.
package inventory

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Format is the version of testbed files.
const Format = "hopbench.testbed/1"

// Inventory is a testbed file that is right in itself.
type Inventory struct {
	Kind      string // one of Kinds, as result.Testbed has it
	Name      string
	Title     string
	TokenFile string // of the ends that are reached by TLS or served; may be empty
	Endpoints []Endpoint
	Paths     []Path
	Switches  []Switch
	Hops      []Hop
	// Broker is where the machines of a fleet join, nil of a testbed of hosts.
	Broker *Broker
	// Queue feeds the clients of a fleet with servers.
	Queue Queue
	// Dir is the folder of the file, to which its relative names belong.
	Dir string
}

// Broker is where the machines of a fleet join.
type Broker struct {
	// Listen is the address of this machine; port 0 is that of brokers.
	Listen netip.AddrPort
	// URL has the servers of a cluster at which machines join, see ParseCluster, and CAFile who
	// vouches for them; empty for a broker of this process.
	URL, CAFile string
	// JoinFile is what machines need to join.
	JoinFile string
	// Wait is how long a run waits for its machines.
	Wait time.Duration
	// MaxAgents bounds how many join.
	MaxAgents int
}

// Queue feeds the clients of a fleet with servers.
type Queue struct {
	// Lease is how long a machine may be silent until its place goes to another, 0 for
	// LeaseOf the broker's MaxAgents.
	Lease time.Duration
	// AMQP or ServiceBus says where the queue is; both are nil where it is in the fleet's
	// own broker.
	AMQP       *AMQPQueue
	ServiceBus *ServiceBusQueue
}

// DefaultLease is the lease of a queue that says none, of a fleet that is not too large for it.
const DefaultLease = 30 * time.Second

// signsPerSecond is how many signs of life the machines of a fleet give altogether, so that
// of thousands each gives one more rarely than every second.
const signsPerSecond = 500

// signsInLease is how many signs of life a machine gives within a lease at least.
const signsInLease = 3

// SignsEvery is how often each of so many machines gives a sign of life.
func SignsEvery(machines int) time.Duration {
	return time.Duration(1+machines/signsPerSecond) * time.Second
}

// leastLease is the shortest lease that so many machines can keep.
func leastLease(machines int) time.Duration { return signsInLease * SignsEvery(machines) }

// LeaseOf is the lease of a queue that says none, of a fleet of up to so many machines.
func LeaseOf(maxAgents int) time.Duration { return max(DefaultLease, leastLease(maxAgents)) }

// AMQPQueue is a queue at a broker that speaks AMQP 1.0.
type AMQPQueue struct {
	URL          string // amqps://HOST:PORT, without a user
	Address      string // of the queue, as its broker writes it
	User         string // may be empty
	PasswordFile string // of the user; empty without one
}

// ServiceBusQueue is a queue of Azure Service Bus.
type ServiceBusQueue struct {
	Name           string
	ConnectionFile string // holds a connection string
}

// Endpoint is a host at an end of paths, or an appliance on them that has an agent.
type Endpoint struct {
	Name                string
	Reach               Reach
	EgressBitsPerSecond float64 // 0 unknown
	// Binary is the hopbench for this machine that ssh copies; empty: found next to
	// this one.
	Binary string
}

// Path is where a path of the experiment is.
type Path struct {
	Name string
	// To is what the source dials; port 0 is that of the destination's listener.
	To netip.AddrPort
	// Network is, of a fleet, where each destination has the address that its source
	// dials.
	Network netip.Prefix
	// Listen is the address that the destination listens on, invalid for To: it
	// differs behind NAT.
	Listen netip.AddrPort
	// From is the source's local address, invalid for the kernel's choice.
	From   netip.Addr
	Device string // of the source; may be empty
	DSCP   int    // -1: the test's own
	Expect Expectation
	// Proof is what proves of each trial that it took the path, empty for the best that
	// there is.
	Proof result.PathProof
	// Set are the values of switches that bring the path into force, by the
	// switch's name.
	Set map[string]string
	// Hops are names of Inventory.Hops whose figures belong to the path.
	Hops []string
}

// Expectation is what a path must show; what is zero is learned at its first trial.
type Expectation struct {
	Hops         int // routers and the destination, as a trace counts
	ReceivedTTL  int
	PathMTUBytes int
}

// Proof is how it is proven that a switch did what it was told.
type Proof string

// The proofs.
const (
	ProofTrace   Proof = "trace"   // a trace shows this path and no other
	ProofCanary  Proof = "canary"  // a request that only some values let pass
	ProofCommand Proof = "command" // of the user's; exit status 0
	ProofNone    Proof = "none"    // the report says so
)

// Switch is a thing that commands set to one of several values.
type Switch struct {
	Name   string
	Values map[string][]string // argv by value
	Read   []string            // argv; prints the value in force
	Proof  Proof
	// Verify is the argv of ProofCommand, called with the value appended.
	Verify []string
	// Canary says which answer proves which value; nil for another proof.
	Canary  map[string]CanaryAnswer
	Settle  time.Duration
	Timeout time.Duration
	// Restore is the value to leave behind, empty for the one that was found.
	Restore string
}

// CanaryAnswer is what becomes of the canary request.
type CanaryAnswer string

// The answers.
const (
	CanaryPassed CanaryAnswer = "passed"
	CanaryReset  CanaryAnswer = "reset"
	CanarySilent CanaryAnswer = "silent"
)

// Hop is where the figures of a hop come from; one of its sources is not nil.
type Hop struct {
	Name       string
	Agent      *AgentMeter
	Prometheus *PrometheusMeter
	SNMP       *SNMPMeter
	CSV        *CSVMeter
}

// AgentMeter reads the counters of an appliance that has an agent.
type AgentMeter struct {
	Endpoint  string
	Interface string // towards the source
}

// PrometheusMeter asks a Prometheus server; each query is an instant query of a total.
type PrometheusMeter struct {
	URL                             string
	ForwardBytes, BackwardBytes     string
	ForwardPackets, BackwardPackets string
	DroppedPackets, CPUSeconds      string
}

// SNMPMeter reads IF-MIB (RFC 2863) of an appliance: by SNMPv2c with a community, or by
// SNMPv3 as a user.
type SNMPMeter struct {
	Address       string // host:port
	Interface     string // ifName or ifIndex, towards the source
	CommunityFile string // of SNMPv2c, empty with a user
	// User is that of SNMPv3's USM (RFC 3414), who proves the password in AuthFile by
	// HMAC-SHA-256 (RFC 7860); with PrivacyFile, AES-128 (RFC 3826) encrypts what is said.
	User, AuthFile, PrivacyFile string
}

// CSVMeter reads a file that something else appends to: a column time (RFC 3339 or
// seconds since 1970) and totals named as the fields of measurement.HopSample.
type CSVMeter struct {
	File string
}

// AgentPort is where agents listen whose port a file leaves out.
const AgentPort = 5202

// Switching says what a run needs that takes the paths in this order, if none of the
// values that it sets was in force before: commands of switches, and time to settle.
func (in *Inventory) Switching(order []string) (commands int, settle time.Duration) {
	state := map[string]string{}
	for _, name := range order {
		i := slices.IndexFunc(in.Paths, func(p Path) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		var wait time.Duration // all switches of a path settle together
		for _, s := range in.Switches {
			if value, set := in.Paths[i].Set[s.Name]; set && state[s.Name] != value {
				state[s.Name] = value
				commands++
				wait = max(wait, s.Settle)
			}
		}
		settle += wait
	}
	return commands, settle
}

// SameAddresses says whether nothing but switches can tell two paths apart.
func (p Path) SameAddresses(q Path) bool {
	pTo, pListen := p.Ends(measurement.DefaultPort)
	qTo, qListen := q.Ends(measurement.DefaultPort)
	return pTo == qTo && p.Network == q.Network && pListen == qListen && p.From == q.From && p.Device == q.Device && p.DSCP == q.DSCP
}

// Ends are what the source dials and where the destination listens, with the ports that a
// file may leave out. The usual port is that of a path of which it gives none.
func (p Path) Ends(usual uint16) (to, listen netip.AddrPort) {
	port := cmp.Or(p.To.Port(), p.Listen.Port(), usual)
	to = netip.AddrPortFrom(p.To.Addr(), port)
	if !p.Listen.IsValid() {
		return to, to
	}
	return to, netip.AddrPortFrom(p.Listen.Addr(), cmp.Or(p.Listen.Port(), port))
}

// Alike lists pairs of paths that have the same addresses and set the same values: a
// difference between them is chance.
func (in *Inventory) Alike() (pairs [][2]string) {
	for i, p := range in.Paths {
		for _, q := range in.Paths[i+1:] {
			if p.SameAddresses(q) && maps.Equal(p.Set, q.Set) {
				pairs = append(pairs, [2]string{p.Name, q.Name})
			}
		}
	}
	return pairs
}
