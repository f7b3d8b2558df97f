package probe

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

const (
	// packetBytes is what each flow of packets takes of the server's memory: a batch of
	// them, and what tells which have come.
	packetBytes = 2 << 20
	// pagesBytes is that of a lap of packets sent by reference.
	pagesBytes = 8 << 20
)

// packetKind is packets over UDP, counted in bytes (udp) or one by one (pps).
func packetKind() kind {
	return kind{
		run: runPackets, planned: planned,
		files: func(spec measurement.Spec) int { return 2 * spec.Flows }, // a control connection beside each
		serve: func(env serverEnv) testServer {
			return &packetServer{maxRate: env.MaxRateBitsPerSecond, accept: env.AcceptUDP}
		},
		demand:     packetDemand,
		rate:       func(spec measurement.Spec) float64 { return spec.RateBitsPerSecond },
		least:      func(spec measurement.Spec) int64 { return leastAtRate(spec.RateBitsPerSecond) },
		keepAlive:  func(spec measurement.Spec) bool { return spec.Direction == measurement.Receive },
		takeThread: takeThread,
	}
}

func packetDemand(spec measurement.Spec, d *admission.Cost) {
	n := int64(connections(spec))
	bins, _ := binsOf(spec)
	// Their sockets block a thread each.
	d[admission.Descriptors], d[admission.Threads] = 2*n, n
	d[admission.Bytes] += n * packetBytes
	if spec.Direction == measurement.Receive {
		d[admission.Bytes] += min(n, mostPages) * pagesBytes
	} else {
		d[admission.Bytes] += n * 2 * int64(bins) * countBytes
	}
}

// pacedPackets is a test as a server lets it run that bounds the rate to maxRate in
// bit/s: one that asks for what the path carries gets so much. 0 does not bound it.
func pacedPackets(spec measurement.Spec, maxRate float64) measurement.Spec {
	if maxRate > 0 && spec.RateBitsPerSecond == 0 {
		spec.RateBitsPerSecond = maxRate
	}
	return spec
}
