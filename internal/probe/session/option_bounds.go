package session

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
)

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = kind.MaxFlows
	MaxDuration = kind.MaxSeconds * time.Second // of each of the parts of a test
	// MaxMessageBytes is that of a request and of a response.
	MaxMessageBytes = kind.MaxMessageBytes
	MaxInFlight     = kind.MaxInFlight
)
