package filter

// StampsOnEntry is how many copies of a packet that it stamps a sampler sends
// as the packet comes in. The first of them brings the code for it into the
// processor's caches, the next two say how long a copy takes. One more is sent
// as the packet leaves.
const StampsOnEntry = 3

// PacketStamps is where packets are stamped: a copy of some that come in through
// Interfaces, and of the same as they leave through one of them, goes out of the
// interface with the index Device, at the other end of which is Sink.
type PacketStamps struct {
	Interfaces []string
	// Gap is how many packets there are on average for each that is stamped. The
	// stamps of one cost some 2 µs.
	Gap    int
	Device int
	Sink   string
}
