// Package kind says, as data, which kinds of test there are, which options each
// takes, within what bounds, and what it brings back. The loader of experiment
// files, the flags of the command line, the JSON Schema, the checks at both ends
// of a test, shell completion and docs/options.md are loops over these tables.
// How a kind is measured is package probe's.
package kind

import (
	"reflect"

	"github.com/hopbench/hopbench/internal/measurement"
)

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
	// Defaults are the values of a spec's zero fields.
	Defaults measurement.Spec
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
	// expected is about how long a test takes on a healthy path, at most. The
	// spec is complete.
	expected func(measurement.Spec) measurement.Seconds
	// check compares the values of a complete spec with each other.
	check func(measurement.Spec, *Problems)
}

func measured(s measurement.Spec) measurement.Seconds {
	return s.IdleDuration + s.MaxWarmup + s.Duration
}

// expectedFTPBitsPerSecond is the rate that a path is taken to have, which an
// ftp test is about to find out.
const expectedFTPBitsPerSecond = 1e9

var kinds = []Kind{
	{
		Name: tcp, Doc: "bulk TCP throughput, as the receiver confirmed it", Fills: true, Streams: true, Implied: true,
		Defaults: measurement.Spec{Duration: 10, MaxWarmup: 2, Flows: 1, Direction: measurement.Send},
		expected: measured,
	},
	{
		Name: udp, Doc: "UDP throughput, and how many packets are lost, late or out of order", Fills: true, Implied: true,
		Defaults: measurement.Spec{Duration: 10, MaxWarmup: 0.2, Flows: 1, Direction: measurement.Send},
		expected: measured, check: checkPackets,
	},
	{
		Name: pps, Doc: "how many small UDP packets pass in a second, without offloads", Fills: true,
		Defaults: measurement.Spec{
			Duration: 10, MaxWarmup: 0.2, Flows: 1, Direction: measurement.Send,
			PacketBytes: 64, GSO: measurement.Off, GRO: measurement.Off,
		},
		expected: measured, check: checkPackets,
	},
	{
		Name: rr, Doc: "latency of a request and its response", Implied: true,
		Defaults: measurement.Spec{
			Duration: 1, MaxWarmup: 0.1, Protocol: measurement.OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1,
		},
		expected: measured, check: checkExchange,
	},
	{
		Name: crr, Doc: "connect, request, response, close: new connections in a second",
		Defaults: measurement.Spec{Duration: 1, MaxWarmup: 0.1, Flows: 1, RequestBytes: 1, ResponseBytes: 1},
		expected: measured,
	},
	{
		Name: load, Doc: "latency of the idle path, then of the path under the load of TCP flows", Fills: true, Streams: true,
		Defaults: measurement.Spec{
			Duration: 10, MaxWarmup: 2, IdleDuration: 1, Flows: 8, Direction: measurement.Send,
			Protocol: measurement.OverUDP, RequestBytes: 64, ResponseBytes: 64, RequestsPerSecond: 500,
		},
		expected: measured, check: checkLoad,
	},
	{
		Name: ftp, Doc: "throughput of one file over FTP, in one or several segments, checked by a digest", Implied: true,
		Defaults: measurement.Spec{Flows: 1, Direction: measurement.Receive, FileBytes: 1_000_000_000},
		expected: func(s measurement.Spec) measurement.Seconds {
			return max(measurement.Seconds(float64(s.FileBytes)*8/expectedFTPBitsPerSecond), 1)
		},
		check: checkFTP,
	},
	{
		Name: mtu, Doc: "the largest packet that the path carries, each way",
		Defaults: measurement.Spec{Timeout: 0.2},
		expected: func(s measurement.Spec) measurement.Seconds { return 3 * s.Timeout },
	},
	{
		Name: ping, Doc: "ICMP echo", NoServer: true, Implied: true,
		Defaults: measurement.Spec{Count: 20, Interval: 1, PayloadBytes: 56, Timeout: 1},
		expected: func(s measurement.Spec) measurement.Seconds {
			return measurement.Seconds(s.Count-1)*s.Interval + 0.05
		},
		check: checkPing,
	},
	{
		Name: trace, Doc: "the hops of the path", NoServer: true, Implied: true,
		Defaults: measurement.Spec{MaxHops: 30, Timeout: 1, Protocol: measurement.OverTCP},
		expected: func(measurement.Spec) measurement.Seconds { return 0.05 },
	},
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

// Names lists the kinds' names, in the order of All.
func Names() []measurement.Kind {
	names := make([]measurement.Kind, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

// Defaults is s with the zero fields of its kind filled in, so that what is
// stored is what was done.
func Defaults(s measurement.Spec) measurement.Spec {
	k, _ := Of(s.Kind)
	if s.FilePath != "" {
		k.Defaults.FileBytes = 0 // a file on a stock server has its own size
	}
	to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(k.Defaults)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return s
}

// ExpectedDuration is about how long the test takes, for a progress display
// and for deadlines; it is an upper estimate on a healthy path.
func ExpectedDuration(s measurement.Spec) measurement.Seconds {
	k, ok := Of(s.Kind)
	if !ok {
		return 0
	}
	return k.expected(Defaults(s))
}
