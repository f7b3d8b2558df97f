// Package sockets holds the fast paths of one connection that differ between
// operating systems: blocking transfers without the runtime's network poller,
// zero-copy sending, discarding received bytes inside the kernel, options, timestamps. What a
// system lacks is answered with an error or a zero that says so; the transfers
// themselves work everywhere.
package sockets

import (
	"errors"
	"net"
	"slices"
	"time"
)

// Tick is how long a transfer blocks at most before it returns ErrTick, so
// that its loop can look at deadlines and at whether it should stop.
const Tick = 100 * time.Millisecond

// AttachedTick is the Tick of an attached Conn: there may be thousands of them.
const AttachedTick = 500 * time.Millisecond

// Detach takes a socket out of the network poller, where the system has blocking ones, and
// closes c or owns it.
func Detach(c *net.TCPConn) (*Conn, error) { return detach(c) }

// ErrTick says that nothing could be transferred for a Tick, or until a signal.
var ErrTick = errors.New("nothing transferred for a tick")

// ErrUnsupported says that this operating system lacks what was asked.
var ErrUnsupported = errors.New("not supported on this operating system")

// isAny says that an error is one of several.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
