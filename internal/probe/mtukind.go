package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// mtuKind is the largest packet that a path carries, each way.
func mtuKind() session.Kind {
	return session.Kind{
		Run: runMTU, Planned: mtuPlanned,
		NewServer: func(env session.ServerEnv) session.Server { return &mtuServer{accept: env.AcceptUDP} },
		Demand: func(_ measurement.Spec, d *admission.Cost) {
			d[admission.Descriptors], d[admission.Threads] = 2, 1
		},
		AtOnce:     func(measurement.Spec) int { return 1 },
		TakeThread: session.TakeThread,
	}
}

func mtuPlanned(spec measurement.Spec) time.Duration {
	return 2 * mtuRounds * spec.Timeout.Duration() // each way
}
