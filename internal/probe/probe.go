// Package probe measures a path between this host and a cooperating server. [Run] does
// one test, [Server] is the other end of it, so that `hopbench serve`, `hopbench test`
// and the agents of a lab share one code. A kind of test is a package of its own with
// both ends, and a row of the table here; package kind says what each measures.
//
// What all kinds share is in probe/session, and in probe/datagram for those that use
// UDP; what a test costs a machine is in probe/host.
package probe

import (
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// What callers of Run and Server need of package session.
type (
	// Request is one test to be done from this host.
	Request = session.Request
	// Sampled, FlowCount and ReadFlow are of a test whose flows are sampled while it runs.
	Sampled   = session.Sampled
	FlowCount = session.FlowCount
	ReadFlow  = session.ReadFlow
	// Error is the error of every test that gave no outcome.
	Error = session.Error
	// Reason is why a test gave no outcome, in one word that programs may rely on.
	Reason = session.Reason
)

// The reasons.
const (
	Refused      = session.Refused
	Unreachable  = session.Unreachable
	Local        = session.Local
	Vanished     = session.Vanished
	TimedOut     = session.TimedOut
	Protocol     = session.Protocol
	Unauthorized = session.Unauthorized
	Limit        = session.Limit
	Unsupported  = session.Unsupported
	Cancelled    = session.Cancelled
	Failed       = session.Failed
)

// ReasonOf is the reason that an error of a test has, or would have.
func ReasonOf(err error) Reason { return session.ReasonOf(err) }

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = kind.MaxFlows
	MaxDuration = kind.MaxDuration // of each of the parts of a test
)
