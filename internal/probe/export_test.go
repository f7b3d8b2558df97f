package probe

import (
	"net"

	"github.com/hopbench/hopbench/internal/probe/session"
)

// What the tests of package probe_test use of the inside of this one.
var (
	Accept     = (*Server).accept
	Enter      = (*Server).enter
	Leave      = (*Server).leave
	Find       = (*Server).find
	AnswerSize = (*Server).answerSize
)

// Wait returns when all that a server has begun is done.
func (s *Server) Wait() { s.wg.Wait() }

// WithoutUDP is a listener of a server whose system has no UDP, and why it has none.
func (s *Server) WithoutUDP(ln net.Listener, why error) *Listener {
	s.lacksUDP = why
	return &Listener{s: s, tcp: ln}
}

// Conclude ends a connection that was accepted with err.
func (s *Server) Conclude(c *net.TCPConn, err error) {
	s.conclude(&connection{TCPConn: c, guard: &session.Guard{}, log: s.log}, err)
}
