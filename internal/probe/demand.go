package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
)

// What the server's end of a test takes of memory at most, in bytes, beside what
// its spec makes larger: bounds, not means.
const (
	// testBytes is that of each test: its samples of the host, its frames.
	testBytes = 2 << 20
	// flowBytes is that of each connection: stacks, frames, TCP_INFO samples. One of
	// very many flows keeps few samples and small stacks.
	flowBytes     = 256 << 10
	manyFlowBytes = 24 << 10
	// countBytes is that of each bin of a receiver's count, until it is sent as JSON.
	countBytes = 64
	// packetBytes is that of each flow of packets: a batch of them, and what tells
	// which have come.
	packetBytes = 2 << 20
	// pagesBytes is that of a lap of packets sent by reference.
	pagesBytes = 8 << 20
	// segmentBytes is that of each segment of a file.
	segmentBytes = 512 << 10
)

// demandOf is what the server's end of a whole test takes at most, from its spec
// alone. The spec has passed checkSpec.
func demandOf(spec measurement.Spec) admission.Cost {
	n := int64(connections(spec))
	d := admission.Cost{admission.Tests: 1, admission.Descriptors: n, admission.Bytes: testBytes + n*flowBytes}
	bins, _ := binsOf(spec)
	switch spec.Kind {
	case measurement.TCP:
		if sharesPoller(spec) {
			d[admission.Bytes] = testBytes + n*manyFlowBytes
		} else {
			d[admission.Threads] = n
		}
		if spec.Direction != measurement.Send && !sharesPoller(spec) {
			d[admission.Descriptors] += 2 * n // a pipe each
		}
		if spec.Direction != measurement.Receive {
			d[admission.Bytes] += n * int64(bins) * countBytes
			if !sharesPoller(spec) {
				d[admission.Bytes] += max(copyBytes, n*leastCopyBytes)
			}
		}
	case measurement.UDP, measurement.PPS:
		// Their sockets block a thread each.
		d[admission.Descriptors], d[admission.Threads] = 2*n, n
		d[admission.Bytes] += n * packetBytes
		if spec.Direction == measurement.Receive {
			d[admission.Bytes] += min(n, mostPages) * pagesBytes
		} else {
			d[admission.Bytes] += n * 2 * int64(bins) * countBytes
		}
	case measurement.MTU:
		d[admission.Descriptors], d[admission.Threads] = 2, 1
	case measurement.RR:
		d[admission.Descriptors], d[admission.Threads] = 2, 1
	case measurement.CRR:
		// A control connection for each that the client opens at a time while it looks
		// for back ends, and a transaction for each of its flows that is not answered as
		// it is accepted.
		slow := n
		if spec.RequestBytes <= inlineRequest && spec.ResponseBytes <= inlineResponse {
			slow = min(n, connectAtOnce)
		}
		d[admission.Descriptors] = controlsAtOnce + slow
		d[admission.Bytes] = testBytes + d[admission.Descriptors]*flowBytes
	case measurement.FTP:
		// Its own connection, a listener, and for each segment a session, a listener
		// and a connection of data.
		d[admission.Descriptors] = 2 + 3*n
		d[admission.Bytes] += n * segmentBytes
	}
	return d
}

// controlsAtOnce is how many control connections of a crr test a server has at the
// same time: the client dismisses those that it need not keep.
const controlsAtOnce = connectAtOnce + 1

// mostConnections is how many connections of a test a server takes at a time.
func mostConnections(spec measurement.Spec) int {
	switch spec.Kind {
	case measurement.CRR:
		return controlsAtOnce
	case measurement.FTP, measurement.RR, measurement.MTU:
		return 1
	}
	return connections(spec)
}

// lengthOf is the longest that a test holds the server from START on.
func (s *Server) lengthOf(spec measurement.Spec) time.Duration {
	if spec.Kind == measurement.FTP {
		return s.opts.MaxDuration // a transfer that stands still ends much sooner
	}
	return planned(spec)
}

// limitsOf is what a server spends on tests: what the options say, and no more than
// part of what this process may have. Half of the memory and more than half of the
// threads are for all else, and so are the descriptors of those at the door.
func limitsOf(o ServerOptions) (tests admission.Cost, door int) {
	door = max(o.MaxConnections/4, 1)
	tests = admission.Cost{
		admission.Tests:       int64(o.MaxTests),
		admission.Descriptors: int64(max(o.MaxConnections-door, 1)),
		admission.Threads:     maxThreads,
		admission.Bytes:       o.MaxMemoryBytes,
	}
	if n := hostinfo.MaxThreads(); n > 0 {
		tests[admission.Threads] = int64(min(maxThreads, max(n/2, 1)))
	}
	if have := hostinfo.MaxMemoryBytes(); tests[admission.Bytes] == 0 {
		tests[admission.Bytes] = have / 2
	}
	return tests, door
}
