//go:build !unix

package reach

import (
	"errors"
	"io"
	"runtime"
)

// Stdio says that ssh starts no agents here.
func Stdio() (io.ReadWriteCloser, error) {
	return nil, errors.New("agents on standard input need a Unix; on " + runtime.GOOS + " use hopbench agent --listen")
}

// RemoveSelf says the same.
func RemoveSelf() error {
	return errors.New("a running program cannot remove its file on " + runtime.GOOS)
}
