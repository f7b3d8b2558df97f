package probe

import (
	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Stats is what a server has done since it began, and does.
type Stats struct {
	// Used of Limits is what the tests in progress take at most, of so many Clients.
	Used, Limits admission.Cost
	Clients      int
	// Waiting are the connections that have not said yet what they want; PushedOut
	// were ended because too many did.
	Waiting   int
	PushedOut uint64
	// Began counts tests by their kind, Refused what was refused or failed, by its
	// reason.
	Began   map[measurement.Kind]uint64
	Refused map[string]uint64
	// ReceivedBytes and SentBytes are payload of tests.
	ReceivedBytes, SentBytes int64
}

// Stats may be called at any time.
func (s *Server) Stats() Stats {
	n := s.counts.Totals()
	out := Stats{Limits: s.budget.Limits(), Began: n.Began, Refused: n.Refused, ReceivedBytes: n.ReceivedBytes, SentBytes: n.SentBytes}
	out.Used, out.Clients = s.budget.Used()
	out.Waiting, out.PushedOut = s.door.Waiting()
	return out
}
