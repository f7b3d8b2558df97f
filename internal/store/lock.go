package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/filelock"
)

// Lock keeps other processes from writing in a folder until what it returns is
// closed; it is ErrBusy if another one does. The lock is on the folder itself, on Windows
// on a file in it. Where none is known, SQLite's own locks still keep two writers from
// mixing their pages, and Put refuses a trial that the other one has stored.
func Lock(dir string) (io.Closer, error) {
	lock, err := filelock.Existing(dir)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("%s: %w", dir, ErrBusy)
	case err != nil:
		return nil, fmt.Errorf("lock the run folder: %w", err)
	}
	return lock, nil
}
