// Package udp measures packets over UDP, counted in bytes (udp) or one by one (pps): both
// ends of a test, the numbers and times of packets, and the search for the highest rate
// under a bound of loss.
package udp

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

const (
	// packetBytes is what each flow of packets takes of the server's memory: a batch of
	// them, and what tells which have come.
	packetBytes = 2 << 20
	// pagesBytes is that of a lap of packets sent zero-copy.
	pagesBytes = 8 << 20
	// grace is longer than that of other kinds: packets that nothing slows down fill whatever
	// queue the path has, and what the ends say to each other may wait behind them.
	grace = 3 * session.Grace
)

// Kind is packets over UDP, counted in bytes (udp) or one by one (pps).
func Kind() session.Kind {
	return session.Kind{
		Run: Run, PreparesItself: true, Planned: session.Planned,
		Grace: func(measurement.Spec) time.Duration { return grace },
		Files: func(spec measurement.Spec) int { return 2 * spec.Flows }, // a control connection with each
		NewServer: func(env session.ServerEnv) session.Server {
			return &server{accept: env.AcceptUDP, clock: env.Clock}
		},
		Demand:     demand,
		Rate:       func(spec measurement.Spec) float64 { return spec.RateBitsPerSecond },
		Least:      func(spec measurement.Spec) int64 { return session.LeastAtRate(spec.RateBitsPerSecond) },
		KeepAlive:  func(spec measurement.Spec) bool { return spec.Direction == measurement.Receive },
		TakeThread: session.TakeThread,
	}
}

func demand(spec measurement.Spec, d *admission.Cost) {
	n := int64(kind.Connections(spec))
	bins, _ := session.BinsOf(spec)
	// Their sockets block a thread each.
	d[admission.Descriptors], d[admission.Threads] = 2*n, n
	d[admission.Bytes] += n * packetBytes
	if spec.Direction == measurement.Receive {
		d[admission.Bytes] += min(n, mostPages) * pagesBytes
	} else {
		d[admission.Bytes] += n * 2 * int64(bins) * session.CountBytes
	}
}

// paced is a test as a server lets it run that bounds the rate to maxRate in
// bit/s: one that asks for what the path carries gets so much. 0 does not bound it.
func paced(spec measurement.Spec, maxRate float64) measurement.Spec {
	if maxRate > 0 && spec.RateBitsPerSecond == 0 {
		spec.RateBitsPerSecond = maxRate
	}
	return spec
}
