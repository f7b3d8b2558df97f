package session

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// SetupTime bounds the time before a test's first byte.
func SetupTime(spec measurement.Spec) time.Duration {
	return dialTimeout + HandshakeTimeout + ConnectTime(spec) - StartTimeout
}

// ConnectTime bounds the time from the first connection of a test to its START.
func ConnectTime(spec measurement.Spec) time.Duration {
	return StartTimeout + time.Duration(kind.Connections(spec))*startTimePerFlow
}

// Grace is how long after its planned end a test may still deliver results.
const Grace = 5 * time.Second

// Reporting is what a test needs of that for its end: nothing else is waited for so long.
const Reporting = time.Second

const (
	dialTimeout = 5 * time.Second
	// HandshakeTimeout bounds everything from the first byte to READY.
	HandshakeTimeout = 5 * time.Second
)

// startTimeout is how long a prepared connection waits for START, and
// startTimePerFlow how much longer for each connection of the test: the client
// opens them all before it starts any.
const (
	StartTimeout     = 15 * time.Second
	startTimePerFlow = 5 * time.Millisecond
)

// StopCheck is how often a transfer looks for the end that the other one gave it.
const StopCheck = 5 * time.Millisecond
