package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// mtuKind is the largest packet that a path carries, each way.
func mtuKind() kind {
	return kind{
		run: runMTU, planned: mtuPlanned,
		serve: func(env serverEnv) testServer { return &mtuServer{accept: env.AcceptUDP} },
		demand: func(_ measurement.Spec, d *admission.Cost) {
			d[admission.Descriptors], d[admission.Threads] = 2, 1
		},
		atOnce:     func(measurement.Spec) int { return 1 },
		takeThread: takeThread,
	}
}

func mtuPlanned(spec measurement.Spec) time.Duration {
	return 2 * mtuRounds * spec.Timeout.Duration() // each way
}
