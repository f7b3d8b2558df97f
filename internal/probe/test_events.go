package probe

import (
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// TestEvent is the beginning or the end of one test at a server.
type TestEvent struct {
	Client netip.Addr
	Spec   measurement.Spec
	// Ended tells the end, and the fields below belong to it.
	Ended   bool
	Elapsed time.Duration
	Bytes   int64 // of payload that moved at this end, both ways
	Err     error // why the first connection failed that did, if one did
	// Vanished says that Err is the client's closing of that connection, which
	// some tests end with.
	Vanished bool
}

// notify counts the beginning of a test and passes both on.
func (s *Server) notify(e TestEvent) {
	if !e.Ended {
		s.counts.Begin(e.Spec.Kind)
	}
	if s.opts.OnTest != nil {
		s.opts.OnTest(e)
	}
}
