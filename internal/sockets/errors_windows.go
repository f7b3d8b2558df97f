package sockets

import (
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

// OutOfDescriptors does not happen here.
func OutOfDescriptors(error) bool { return false }
