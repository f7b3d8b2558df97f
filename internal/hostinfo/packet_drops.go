package hostinfo

// DropCounts is how many packets a host has lost, as the counters of its
// kernel have it. Only differences between two readings mean anything.
type DropCounts struct {
	// Places are counters that no two places share, so that they may be added.
	Places []DropCount
	// Squeezes is how often the host stopped receiving with packets left to
	// receive, its budget used up; nothing is lost by that. It is the whole
	// host's.
	Squeezes uint64
}

// DropCount is the counter of one place.
type DropCount struct {
	Place   string
	Packets uint64
	// HostWide counters belong to the whole host, the others to the network
	// namespace of the calling thread.
	HostWide bool
}
