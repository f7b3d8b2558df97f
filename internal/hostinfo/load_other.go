//go:build !linux

package hostinfo

// ReadRunnable is not supported here.
func ReadRunnable() (int, error) { return 0, ErrUnsupported }
