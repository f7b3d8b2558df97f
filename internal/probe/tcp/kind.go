// Package tcp measures bulk throughput over TCP: both ends of a test, the choice of the
// measured window, and what the sockets are asked for.
package tcp

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/thread"
)

// manyFlowBytes is what each connection of a test of very many takes of the server's
// memory: it keeps few samples and small stacks.
const manyFlowBytes = 24 << 10

// Kind is bulk throughput over TCP.
func Kind() session.Kind {
	return session.Kind{
		Run: Run, PreparesItself: true, Planned: session.Planned, Grace: grace, Files: kind.Connections,
		NewServer: func(session.ServerEnv) session.Server {
			return &server{bulk: newBulk()}
		},
		Demand: demand, WithoutThreads: true,
		Rate:       rate,
		Least:      func(spec measurement.Spec) int64 { return session.LeastAtRate(rate(spec)) },
		TakeThread: takeThread,
	}
}

func rate(spec measurement.Spec) float64 {
	return spec.PacingBitsPerSecond * float64(kind.Connections(spec))
}

func demand(spec measurement.Spec, d *admission.Cost) {
	n := int64(kind.Connections(spec))
	bins, _ := session.BinsOf(spec)
	if session.SharesPoller(spec) {
		d[admission.Bytes] = session.TestBytes + n*manyFlowBytes
	} else {
		d[admission.Threads] = n
	}
	if spec.Direction != measurement.Send && !session.SharesPoller(spec) {
		d[admission.Descriptors] += 2 * n // a pipe each
	}
	if spec.Direction != measurement.Receive {
		d[admission.Bytes] += n * int64(bins) * session.CountBytes
		if !session.SharesPoller(spec) {
			d[admission.Bytes] += n * copyBytes
		}
	}
}

// mostPacedKeep is of how many flows of a test, whose senders pace, each keeps a processor.
// Across one hop on 2 CPUs, 2 to 32 flows of bbr carried 1.1 to 1.2 times as much so, and 64
// 0.9 to 1.1: threads that wait for a processor come back to more packets at a time.
const mostPacedKeep = 32

// keepsProcessor says whether the thread of a flow, if it has one, is to keep a processor of
// the Go runtime. A flow that a pacing rate slows down is not: it took 1.2 times the CPU.
func keepsProcessor(spec measurement.Spec, senderPaces bool) bool {
	return !session.SharesPoller(spec) && spec.PacingBitsPerSecond == 0 &&
		(!senderPaces || kind.Connections(spec) <= mostPacedKeep)
}

func takeThread(w *session.ControlConn, o *session.Flow) (release func(), err error) {
	if session.SharesPoller(o.Test.Spec) || !o.Test.Threaded {
		return func() {}, nil
	}
	return takeItsThread(w, o)
}

// takeItsThread is not inlined: of ten thousand flows, which take no thread, the stack of each
// counts.
//
//go:noinline
func takeItsThread(w *session.ControlConn, o *session.Flow) (release func(), err error) {
	giveBack, err := session.TakeThread(w, o)
	restore := takeTurns(o.Test.Spec)
	return func() {
		restore()
		giveBack()
	}, err
}

// fewThreads is of how many flows of a test the threads need not take turns more often than
// the scheduler has them: none of 8 waits long.
const fewThreads = 16

// takeTurns has the thread of a flow, if it has one, take turns with those of many others.
func takeTurns(spec measurement.Spec) (restore func()) {
	if kind.Connections(spec) <= fewThreads {
		return func() {}
	}
	return thread.ShortSlice()
}
