//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Lock keeps other processes from writing in a folder until what it returns is
// closed; it is ErrBusy if another one does. The advisory lock is on the folder
// itself, leaves no file behind, and ends with the process however it ends.
func Lock(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the run folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, ErrBusy)
		}
		return nil, fmt.Errorf("lock the run folder %s: %w", dir, err)
	}
	return f, nil
}
