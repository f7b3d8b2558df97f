// Package rr measures round-trip time of requests and responses on one connection, over TCP or
// UDP, in a closed or an open loop.
package rr

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Kind is the round-trip time of requests and responses on one connection.
func Kind() session.Kind {
	return session.Kind{
		Run: Run, PreparesItself: true, Planned: session.Planned, Grace: Grace,
		NewServer: func(env session.ServerEnv) session.Server {
			return &server{spin: env.Spin, zeros: make([]byte, kind.MaxMessageBytes)}
		},
		Demand: func(_ measurement.Spec, d *admission.Cost) {
			d[admission.Descriptors], d[admission.Threads] = 2, 1
		},
		AtOnce: func(measurement.Spec) int { return 1 },
		Rate: func(spec measurement.Spec) float64 {
			return spec.RequestsPerSecond * float64(spec.RequestBytes+spec.ResponseBytes) * 8
		},
		Least: func(spec measurement.Spec) int64 { return session.LeastExchanges(spec.RequestsPerSecond) },
		TakeThread: func(w *session.ControlConn, o *session.Flow) (func(), error) {
			if o.Test.Spec.Protocol == measurement.OverTCP {
				return func() {}, w.Detach() // who answers locks its own thread
			}
			return func() {}, nil
		},
		Refused: discardRequests,
	}
}

// Grace lets the client wait for responses over UDP after the planned end: for the last one
// of the measured time, and for one of those that it divides after that.
func Grace(spec measurement.Spec) time.Duration {
	return session.Grace + 2*spec.Timeout.Duration()
}
