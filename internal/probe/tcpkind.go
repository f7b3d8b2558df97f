package probe

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// manyFlowBytes is what each connection of a test of very many takes of the server's
// memory: it keeps few samples and small stacks.
const manyFlowBytes = 24 << 10

// tcpKind is bulk throughput over TCP.
func tcpKind() kind {
	return kind{
		run: runTCP, preparesItself: true, planned: planned, grace: streamGrace, files: connections,
		serve: func(env serverEnv) testServer {
			return &tcpServer{maxRate: env.MaxRateBitsPerSecond, bulk: newBulk()}
		},
		demand: streamDemand, withoutThreads: true,
		rate:       streamRate,
		least:      func(spec measurement.Spec) int64 { return leastAtRate(streamRate(spec)) },
		takeThread: takeStreamThread,
	}
}

func streamRate(spec measurement.Spec) float64 {
	return spec.PacingBitsPerSecond * float64(connections(spec))
}

func streamDemand(spec measurement.Spec, d *admission.Cost) {
	n := int64(connections(spec))
	bins, _ := binsOf(spec)
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
}

// takeStreamThread is for few flows: across one hop on 2 processors, 64 were a fifth
// faster when each kept a processor of the Go runtime while it waited.
func takeStreamThread(w *wire, o *opened) (release func(), err error) {
	if sharesPoller(o.Spec) || !o.Test.Threaded {
		return func() {}, nil
	}
	unlock, err := takeThread(w, o)
	if err != nil {
		return unlock, err
	}
	drop := w.HoldProcessor(w.beside)
	return func() { drop(); unlock() }, nil
}
