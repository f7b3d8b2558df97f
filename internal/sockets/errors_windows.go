package sockets

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// sharePort does nothing: Windows hands the packets of a shared port to
// whichever socket it likes, so ConnectUDP fails there.
func sharePort(_, _ string, _ syscall.RawConn) error { return nil }

const (
	errPeerGone  = windows.WSAECONNRESET // how Windows reports "port unreachable"
	errTooBig    = windows.WSAEMSGSIZE
	errNoBuffers = windows.WSAENOBUFS
)

// ListenerBroken is never known here but by net.ErrClosed.
func ListenerBroken(error) bool { return false }

// LacksUDP says that an error of opening a UDP socket is that the system has none, or
// none as the net package wants it: Wine cannot have them keep quiet of ICMP errors
// (SIO_UDP_NETRESET).
func LacksUDP(err error) bool {
	return isAny(err, windows.WSAEPROTONOSUPPORT, windows.WSAESOCKTNOSUPPORT, windows.WSAEOPNOTSUPP)
}

// rejected is not known here but by errPeerGone.
func rejected(err error) bool { return errors.Is(err, errPeerGone) }

// OutOfDescriptors does not happen here.
func OutOfDescriptors(error) bool { return false }
