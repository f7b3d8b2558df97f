package sockets

// Options are what a test asks of a TCP socket beyond the defaults; a zero
// field asks nothing.
type Options struct {
	// SendBuffer and ReceiveBuffer are in bytes, as asked: Linux doubles them.
	SendBuffer, ReceiveBuffer int
	MSS                       int // bytes
	DSCP                      int // RFC 2474, 0 to 63
	// CongestionControl is the kernel's name of the algorithm.
	CongestionControl string
	// Device is the network interface that the socket is bound to.
	Device string
	// ReusePort takes the chosen local port although the last test's
	// connections from it linger (SO_REUSEADDR, TIME_WAIT).
	ReusePort bool
	// LatePort chooses the port of a bound source address when the destination
	// is known, so that different destinations may share ports
	// (IP_BIND_ADDRESS_NO_PORT, ip(7)).
	LatePort bool
	// Backlog bounds in bytes what waits in the socket unsent, 0 does not
	// (TCP_NOTSENT_LOWAT, tcp(7)).
	Backlog int
}
