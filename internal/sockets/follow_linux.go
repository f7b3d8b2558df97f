package sockets

import "golang.org/x/sys/unix"

// Follower keeps the calling thread, which must be locked, on the processor on
// which the kernel receives its packets (SO_INCOMING_CPU, socket(7)). Waking a
// thread there is a switch of tasks; waking it elsewhere is an interrupt to
// another processor, that may have to leave its idle state first: some 25 µs
// on a virtual machine, more than a routing hop. The kernel's scheduler by
// itself prefers the idle processor.
type Follower struct {
	// left is how many messages pass before the next look.
	left     int
	original unix.CPUSet
	at       int // the processor it keeps to, -1 none
	off      bool
}

// followEvery is how many messages pass between two looks.
const followEvery = 4096

// NewFollower returns a Follower that looks first after so many messages. Two
// ends on one host must not look at the same time, or each would move to where
// the other was.
func NewFollower(first int) *Follower {
	f := &Follower{left: first, at: -1}
	f.off = unix.SchedGetaffinity(0, &f.original) != nil || f.original.Count() < 2
	return f
}

// Received is called after each message that c received.
func (f *Follower) Received(c *Conn) { f.message(c.fd) }

// Accepted is called after each connection that was accepted.
func (f *Follower) Accepted(in Incoming) { f.message(in.fd) }

func (f *Follower) message(fd int) {
	if f.left--; f.left > 0 || f.off {
		return
	}
	f.left = followEvery
	cpu, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
	if err != nil || cpu == f.at || cpu < 0 || !f.original.IsSet(cpu) {
		return
	}
	var only unix.CPUSet
	only.Set(cpu)
	if unix.SchedSetaffinity(0, &only) == nil {
		f.at = cpu
	}
}

// Following says whether the thread keeps to a processor.
func (f *Follower) Following() bool { return f.at >= 0 }

// Release lets the thread run anywhere again.
func (f *Follower) Release() {
	if f.at < 0 {
		return
	}
	// The set was valid; should processors have gone since, the kernel has
	// already let the thread go.
	_ = unix.SchedSetaffinity(0, &f.original)
	f.at = -1
}
