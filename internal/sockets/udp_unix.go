//go:build unix && !linux

package sockets

import "golang.org/x/sys/unix"

const (
	errPeerGone  = unix.ECONNREFUSED
	errTooBig    = unix.EMSGSIZE
	errNoBuffers = unix.ENOBUFS
)
