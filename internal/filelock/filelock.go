// Package filelock keeps other processes of this machine from what one of them works on.
// The locks are advisory (flock(2); on Windows a file that only one process may open for
// writing) and end with the process, however it ends.
package filelock

import "errors"

// maxHolder bounds, in bytes, what another process says of itself.
const maxHolder = 4096

// ErrHeld says that another process holds a lock.
var ErrHeld = errors.New("another process holds the lock")
