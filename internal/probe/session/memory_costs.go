package session

// What the server's end of a test takes of memory at most, in bytes, in addition to what
// its kind and its spec make larger: bounds, not means.
const (
	// TestBytes is that of each test: its samples of the host, its frames.
	TestBytes = 2 << 20
	// FlowBytes is that of each connection: stacks, frames, TCP_INFO samples.
	FlowBytes = 256 << 10
	// CountBytes is that of each bin of a receiver's count, until it is sent as JSON.
	CountBytes = 64
)
