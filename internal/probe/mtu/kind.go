// Package mtu measures the largest packet that a path carries, in each direction.
package mtu

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Kind is the largest packet that a path carries, in each direction.
func Kind() session.Kind {
	return session.Kind{
		Run: Run, Planned: planned, Grace: grace,
		NewServer: func(env session.ServerEnv) session.Server { return &server{accept: env.AcceptUDP} },
		Demand: func(_ measurement.Spec, d *admission.Cost) {
			d[admission.Descriptors], d[admission.Threads] = 2, 1
		},
		AtOnce:     func(measurement.Spec) int { return 1 },
		TakeThread: session.TakeThread,
	}
}

func planned(spec measurement.Spec) time.Duration {
	return 2 * mostRounds * spec.Timeout.Duration() // in each direction
}

// grace lets the client wait for answers on a path whose round trip is longer than the
// timeout: as long for each of the rounds as for the first answer.
func grace(spec measurement.Spec) time.Duration {
	return session.Grace + 2*mostRounds*max(firstAnswer-spec.Timeout.Duration(), 0)
}
