package sockets

import "golang.org/x/sys/windows"

const (
	errPeerGone  = windows.WSAECONNRESET // how Windows reports "port unreachable"
	errTooBig    = windows.WSAEMSGSIZE
	errNoBuffers = windows.WSAENOBUFS
)
