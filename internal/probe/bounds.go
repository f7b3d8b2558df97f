package probe

import "time"

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = 10_000
	MaxDuration = 24 * time.Hour // of each of the parts of a test
	// maxMessageBytes is that of a request and of a response.
	maxMessageBytes = 1 << 20
	maxInFlight     = 4096
)
