// Package kind says, as data, which kinds of test there are, which options each
// takes, within what bounds, and what it brings back. The loader of experiment
// files, the flags of the command line, the JSON Schema, the checks at both ends
// of a test, shell completion and docs/options.md are loops over these tables.
// How a kind is measured is package probe's.
package kind

import "github.com/hopbench/hopbench/internal/measurement"

const (
	tcp   = measurement.TCP
	udp   = measurement.UDP
	pps   = measurement.PPS
	rr    = measurement.RR
	crr   = measurement.CRR
	load  = measurement.Load
	ftp   = measurement.FTP
	mtu   = measurement.MTU
	ping  = measurement.Ping
	trace = measurement.Trace
)

// Kind is a kind of test.
type Kind struct {
	Name measurement.Kind
	// Doc is what it measures, in one line.
	Doc string
	// NoServer says that the other end need not run hopbench serve.
	NoServer bool
	// Fills says that a test fills the path for its duration, which the command
	// line can set for all tests of a run.
	Fills bool
	// Streams says that its payload is that of TCP connections whose window and
	// congestion control an experiment's endpoints decide.
	Streams bool
	// Implied says that flags alone can choose this kind; the first of All that
	// takes all flags is meant, as for iperf3.
	Implied bool
	// check compares the values of a complete spec with each other.
	check func(measurement.Spec, *Problems)
}

var kinds = []Kind{
	{Name: tcp, Doc: "bulk TCP throughput, as the receiver confirmed it", Fills: true, Streams: true, Implied: true},
	{Name: udp, Doc: "UDP throughput, and how many packets are lost, late or out of order", Fills: true, Implied: true, check: checkPackets},
	{Name: pps, Doc: "how many small UDP packets pass in a second, without offloads", Fills: true, check: checkPackets},
	{Name: rr, Doc: "latency of a request and its response", Implied: true, check: checkExchange},
	{Name: crr, Doc: "connect, request, response, close: new connections in a second"},
	{Name: load, Doc: "latency of the idle path, then of the path under the load of TCP flows", Fills: true, Streams: true, check: checkLoad},
	{Name: ftp, Doc: "throughput of one file over FTP, in one or several segments, checked by a digest", Implied: true, check: checkFTP},
	{Name: mtu, Doc: "the largest packet that the path carries, each way"},
	{Name: ping, Doc: "ICMP echo", NoServer: true, Implied: true, check: checkPing},
	{Name: trace, Doc: "the hops of the path", NoServer: true, Implied: true},
}

// All lists the kinds, in the order in which documents name them and flags are
// tried on them.
func All() []Kind { return kinds }

// Of is the descriptor of a kind; false when there is no such kind.
func Of(name measurement.Kind) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Defaults is the spec of a test of which nothing is said.
func (k Kind) Defaults() measurement.Spec { return measurement.Spec{Kind: k.Name}.Defaults() }
