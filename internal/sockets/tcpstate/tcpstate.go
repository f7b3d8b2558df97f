// Package tcpstate reads what the kernel knows of a TCP socket: struct tcp_info and its
// like of other systems as one type, the MSS and the buffers. What a system does not
// tell is zero.
package tcpstate

import "errors"

// errShort says that the kernel is older than any that is known here.
var errShort = errors.New("the system's answer is too short")
