package sockets

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Follower keeps the calling thread, which must be locked, on the processor on
// which the kernel receives its packets (SO_INCOMING_CPU, socket(7)). Waking a
// thread there is a switch of tasks; waking it elsewhere is an interrupt to
// another processor, that may have to leave its idle state first: some 25 µs
// on a virtual machine, more than a routing hop. The kernel's scheduler by
// itself prefers the idle processor.
type Follower struct {
	// left is how many messages pass before the next look.
	left int
	pin  *pin
}

// followEvery is how many messages pass between two looks.
const followEvery = 4096

// NewFollower returns a Follower that looks first after so many messages. Two
// ends on one host must not look at the same time, or each would move to where
// the other was.
func NewFollower(first int) *Follower { return &Follower{left: first, pin: newPin()} }

// Received is called after each message that c received.
func (f *Follower) Received(c *Conn) { f.message(c.fd) }

// Accepted is called after each connection that was accepted.
func (f *Follower) Accepted(in Incoming) { f.message(in.fd) }

func (f *Follower) message(fd int) {
	if f.left--; f.left > 0 || f.pin == nil {
		return
	}
	f.left = followEvery
	f.pin.to(incomingProcessor(fd))
}

// Following says whether the thread keeps to a processor.
func (f *Follower) Following() bool { return f.pin != nil && f.pin.at >= 0 }

// Release lets the thread run anywhere again.
func (f *Follower) Release() {
	if f.pin != nil {
		f.pin.release()
	}
}

// pin keeps the calling thread, which must be locked, on one processor.
type pin struct {
	original unix.CPUSet
	at       int // the processor it keeps to, -1 none
}

// newPin is nil where the thread has no choice of processors.
func newPin() *pin {
	p := &pin{at: -1}
	if unix.SchedGetaffinity(0, &p.original) != nil || p.original.Count() < 2 {
		return nil
	}
	return p
}

// to keeps the thread on a processor, unless it may not run there.
func (p *pin) to(cpu int) {
	if cpu < 0 || cpu == p.at || !p.original.IsSet(cpu) {
		return
	}
	var only unix.CPUSet
	only.Set(cpu)
	if unix.SchedSetaffinity(0, &only) == nil {
		p.at = cpu
	}
}

// release lets the thread run anywhere again.
func (p *pin) release() {
	if p.at < 0 {
		return
	}
	// The set was valid; should processors have gone since, the kernel has
	// already let the thread go.
	_ = unix.SchedSetaffinity(0, &p.original)
	p.at = -1
}

// incomingProcessor is where the kernel received the socket's latest packet, -1 if
// it does not say.
func incomingProcessor(fd int) int {
	cpu, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
	if err != nil {
		return -1
	}
	return cpu
}

// currentProcessor is where the thread runs, -1 if the kernel does not say.
func currentProcessor() int {
	var cpu uint32
	if _, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}
