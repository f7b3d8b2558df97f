package linkem

// PortOfSocket is a port on one end of a socket pair that keeps message
// boundaries, so that a test can give the link emulator frames that no kernel would.
func PortOfSocket(fd int) *Port { return &Port{name: "socket", kind: TAP, fd: fd} }
