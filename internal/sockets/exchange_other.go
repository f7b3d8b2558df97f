//go:build !linux

package sockets

import "time"

// shortest is the shortest wait here: an expired deadline would hide bytes
// that are there.
const shortest = time.Millisecond

// TryRead reads what comes within a millisecond, or returns ErrTick.
func (c *Conn) TryRead(p []byte) (int, error) { return c.read(p, shortest) }

// TryWrite is Write here.
func (c *Conn) TryWrite(p []byte) (int, error) { return c.Write(p) }

// ReadWithin is a Read that waits for wait at most, but for a millisecond at
// least; with orWrite, no longer than that.
func (c *Conn) ReadWithin(p []byte, wait time.Duration, orWrite bool) (int, error) {
	if orWrite {
		wait = shortest
	}
	return c.read(p, max(wait, shortest))
}

// PreciseWaits changes nothing here.
func PreciseWaits() func() { return func() {} }

// Spin is refused here: sockets are read through the runtime's network poller.
func Spin() (release func(), ok bool) { return nil, false }

// EnableReceiveStamps is not supported here.
func (c *Conn) EnableReceiveStamps() error { return ErrUnsupported }

// ReadStamped is not supported here.
func (c *Conn) ReadStamped([]byte, bool) (int, time.Time, error) {
	return 0, time.Time{}, ErrUnsupported
}
