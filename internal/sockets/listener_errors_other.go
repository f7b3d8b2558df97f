//go:build !unix

package sockets

// ListenerBroken is never known here but by net.ErrClosed.
func ListenerBroken(error) bool { return false }

// OutOfDescriptors does not happen here.
func OutOfDescriptors(error) bool { return false }
