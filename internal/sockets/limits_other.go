//go:build !linux

package sockets

// MaxThreads is unknown here.
func MaxThreads() int { return 0 }

// MaxMemoryBytes is unknown here.
func MaxMemoryBytes() int64 { return 0 }
