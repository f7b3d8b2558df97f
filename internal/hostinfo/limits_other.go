//go:build !linux

package hostinfo

// MaxThreads is unknown here.
func MaxThreads() int { return 0 }

// MaxMemoryBytes is unknown here.
func MaxMemoryBytes() int64 { return 0 }

// MaxDescriptors is unknown here.
func MaxDescriptors() int { return 0 }
