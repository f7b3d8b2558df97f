package sockets

import "syscall"

// sharePort does nothing: Windows hands the packets of a shared port to
// whichever socket it likes, so ConnectUDP fails there.
func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
