package sockets

import (
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Paces says that a congestion control of this name sets a pacing rate by itself: BBR does,
// of any version.
func Paces(congestion string) bool { return strings.HasPrefix(congestion, "bbr") }

// Options are what a test asks of a TCP socket beyond the defaults; a zero
// field asks nothing. Other systems than Linux refuse those with a tag, by its name.
type Options struct {
	// SendBuffer and ReceiveBuffer are in bytes, as asked: Linux doubles them.
	SendBuffer, ReceiveBuffer int
	MSS                       int `linux:"MSS"`  // bytes
	DSCP                      int `linux:"DSCP"` // RFC 2474, 0 to 63
	// CongestionControl is the kernel's name of the algorithm.
	CongestionControl string `linux:"congestion control"`
	// Device is the network interface that the socket is bound to.
	Device string `linux:"device"`
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

// OptionsOf is what a spec asks of the socket of one flow. Only DSCP and MSS are for the
// connections of every kind of test.
func OptionsOf(spec measurement.Spec, sends bool) Options {
	o := Options{DSCP: spec.DSCP, MSS: spec.MSSBytes}
	if spec.Kind != measurement.TCP {
		return o
	}
	o.SendBuffer, o.ReceiveBuffer = int(spec.SendBufferBytes), int(spec.ReceiveBufferBytes)
	if sends {
		o.CongestionControl = spec.CongestionControl
	}
	return o
}
