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
	Err     error // why the first connection failed that did, if one did
	// Vanished says that Err is the client's closing of that connection, which
	// some tests end with.
	Vanished bool
}

func (s *Server) tell(e TestEvent) {
	if !e.Ended {
		s.counts.begin(e.Spec.Kind)
	}
	if s.opts.OnTest != nil {
		s.opts.OnTest(e)
	}
}

// blame keeps the first failure of a test for its end.
func (s *Server) blame(t *session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}
