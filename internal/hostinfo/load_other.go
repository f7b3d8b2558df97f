//go:build !linux

package hostinfo

// ReadRunnable is not supported here.
func ReadRunnable() (int, error) { return 0, ErrUnsupported }

// Governors are not known here.
func Governors() []string { return nil }
