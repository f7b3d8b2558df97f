// Package crr measures connections that are opened, serve one request and are closed.
package crr

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Kind is connections that are opened, serve one request and are closed.
func Kind() session.Kind {
	return session.Kind{
		Run: Run, PreparesItself: true, Planned: session.Planned,
		Files: func(spec measurement.Spec) int { return spec.Flows },
		NewServer: func(env session.ServerEnv) session.Server {
			return &server{env: env, zeros: make([]byte, kind.MaxMessageBytes)}
		},
		Demand: demand, SharesFlow: true,
		AtOnce: func(measurement.Spec) int { return controlsAtOnce },
		Least:  func(spec measurement.Spec) int64 { return session.LeastExchanges(spec.RequestsPerSecond) },
	}
}

// controlsAtOnce is how many control connections of a crr test a server has at the
// same time: the client dismisses those that it need not keep.
const controlsAtOnce = session.ConnectAtOnce + 1

// demand counts a control connection for each that the client opens at a time while
// it looks for back ends, and a transaction for each of its flows that is not answered
// as it is accepted.
func demand(spec measurement.Spec, d *admission.Cost) {
	slow := int64(kind.Connections(spec))
	if spec.RequestBytes <= inlineRequest && spec.ResponseBytes <= inlineResponse {
		slow = min(slow, session.ConnectAtOnce)
	}
	d[admission.Descriptors] = controlsAtOnce + slow
	d[admission.Bytes] = session.TestBytes + d[admission.Descriptors]*session.FlowBytes
}
