package session

import "time"

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = 10_000
	MaxDuration = 24 * time.Hour // of each of the parts of a test
	// MaxMessageBytes is that of a request and of a response.
	MaxMessageBytes = 1 << 20
	MaxInFlight     = 4096
)
