//go:build !unix && !windows

package filelock

import "io"

// Existing takes no lock: none is known here.
func Existing(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Made takes none either.
func Made(string, string) (held io.Closer, holder string, err error) {
	return io.NopCloser(nil), "", nil
}
