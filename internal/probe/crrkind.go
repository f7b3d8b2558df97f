package probe

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// crrKind is connections that are opened, serve one request and are closed.
func crrKind() kind {
	return kind{
		run: runCRR, planned: planned,
		files: func(spec measurement.Spec) int { return spec.Flows },
		serve: func(env serverEnv) testServer {
			return &crrServer{env: env, zeros: make([]byte, maxMessageBytes)}
		},
		demand: crrDemand, sharesFlow: true,
		atOnce: func(measurement.Spec) int { return controlsAtOnce },
		least:  func(spec measurement.Spec) int64 { return leastExchanges(spec.RequestsPerSecond) },
	}
}

// controlsAtOnce is how many control connections of a crr test a server has at the
// same time: the client dismisses those that it need not keep.
const controlsAtOnce = connectAtOnce + 1

// crrDemand counts a control connection for each that the client opens at a time while
// it looks for back ends, and a transaction for each of its flows that is not answered
// as it is accepted.
func crrDemand(spec measurement.Spec, d *admission.Cost) {
	slow := int64(connections(spec))
	if spec.RequestBytes <= inlineRequest && spec.ResponseBytes <= inlineResponse {
		slow = min(slow, connectAtOnce)
	}
	d[admission.Descriptors] = controlsAtOnce + slow
	d[admission.Bytes] = testBytes + d[admission.Descriptors]*flowBytes
}
