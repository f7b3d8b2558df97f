package probe

import (
	"github.com/hopbench/hopbench/internal/probe/session"
)

// loadKind is the round-trip time while a tcp test loads the path. A server sees the
// tests that it consists of.
func loadKind() session.Kind {
	return session.Kind{Run: runLoad, Planned: session.Planned, Files: session.Connections}
}
