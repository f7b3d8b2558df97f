package thread

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Gate has threads wait in the kernel, which lets them all go on at once. The Go scheduler
// wakes them one after the other: each of 64 that transfer then has to wait for a CPU that
// those before it already fill, the last for seconds.
type Gate struct {
	fd   int // of eventfd(2), readable once the gate is open
	open atomic.Bool
}

// NewGate makes a gate that is shut. Close gives it back.
func NewGate() (*Gate, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make what threads wait at: %w", err)
	}
	return &Gate{fd: fd}, nil
}

// Wait blocks the calling thread, which should be locked, until the gate is open.
func (g *Gate) Wait() {
	for !g.open.Load() {
		// A signal ends it, and so may a lack of memory: it is tried again.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(g.fd), Events: unix.POLLIN}}, -1)
	}
}

// Open lets all go on that wait, and all that come.
func (g *Gate) Open() {
	if !g.open.Swap(true) {
		_, _ = unix.Write(g.fd, binary.NativeEndian.AppendUint64(nil, 1)) // there is room
	}
}

// Close may be called when nobody waits any more.
func (g *Gate) Close() error { return unix.Close(g.fd) }
