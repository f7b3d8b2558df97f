package probe

// What the server's end of a test takes of memory at most, in bytes, beside what
// its kind and its spec make larger: bounds, not means.
const (
	// testBytes is that of each test: its samples of the host, its frames.
	testBytes = 2 << 20
	// flowBytes is that of each connection: stacks, frames, TCP_INFO samples.
	flowBytes = 256 << 10
	// countBytes is that of each bin of a receiver's count, until it is sent as JSON.
	countBytes = 64
)
