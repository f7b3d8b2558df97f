package sockets

import "errors"

// MaxSegments is how many packets one large buffer holds at most when the
// kernel cuts it (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const MaxSegments = 64

// maxUDPPayload is the largest UDP payload over IPv4.
const maxUDPPayload = 65507

// ErrNoBuffers says that a packet was not sent because a queue of this host
// was full (ENOBUFS).
var ErrNoBuffers = errors.New("a queue of this host is full")

// ErrTooBig says that a packet does not fit the MTU as this host knows it.
var ErrTooBig = errors.New("the packet is larger than the MTU")

// ErrPeerGone says that a host answered an earlier packet with "port
// unreachable"; the socket is as good as before.
var ErrPeerGone = errors.New("nobody listens at the other end")

// Message is one packet, or several of one size joined by the kernel, as
// PacketReceiver.Receive found it.
type Message struct {
	// Data is what was kept of it, Length how long it was.
	Data   []byte
	Length int
	// Segment is the size of each packet in it (the last may be smaller).
	Segment int
	// At is when the kernel received it, in nanoseconds of the host's clock;
	// 0 if it does not say.
	At int64
}

// ReceiveOptions of a PacketReceiver.
type ReceiveOptions struct {
	// Keep is how many bytes of each packet matter; the kernel may drop the
	// rest without copying it. 0 keeps everything.
	Keep int
	// Join has the kernel join packets (UDP_GRO); then all bytes are kept.
	Join bool
	// Stamps asks for the kernel's time of each packet.
	Stamps bool
}

// FragmentMode says what a socket does with packets larger than an MTU.
type FragmentMode int

// The modes (IP_MTU_DISCOVER, ip(7)).
const (
	Fragment     FragmentMode = iota // cut them in fragments
	DontFragment                     // refuse them, as far as the path's MTU is known
	ProbeMTU                         // set DF, and let the interface alone refuse them
)

// PathError is what a router answered to a packet that was too big for it.
type PathError struct {
	From string // address of the router
	MTU  int    // bytes that it can forward
}
