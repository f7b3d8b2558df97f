package probe

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// rrKind is the round-trip time of requests and responses on one connection.
func rrKind() kind {
	return kind{
		run: runRR, planned: planned,
		serve: func(env serverEnv) testServer {
			return &rrServer{spin: env.Spin, zeros: make([]byte, maxMessageBytes)}
		},
		demand: func(_ measurement.Spec, d *admission.Cost) {
			d[admission.Descriptors], d[admission.Threads] = 2, 1
		},
		atOnce: func(measurement.Spec) int { return 1 },
		rate: func(spec measurement.Spec) float64 {
			return spec.RequestsPerSecond * float64(max(spec.RequestBytes, spec.ResponseBytes)) * 8
		},
		least: func(spec measurement.Spec) int64 { return leastExchanges(spec.RequestsPerSecond) },
		takeThread: func(w *wire, o *opened) (func(), error) {
			if o.Spec.Protocol == measurement.OverTCP {
				return func() {}, w.Detach() // who answers locks its own thread
			}
			return func() {}, nil
		},
	}
}
