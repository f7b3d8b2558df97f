//go:build unix

package reach

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sendqueue"
)

// Stdio is the control connection of an agent whose coordinator has its standard input
// and output. The agent has nobody else: the end of standard input is its coordinator's.
// It speaks first, with the protocol's preface, which tells that it runs.
func Stdio() (io.ReadWriteCloser, error) {
	// Copies above the standard descriptors, which are closed on their own terms: a
	// write to a broken standard output ends a Go program by SIGPIPE.
	in, err := ownPipe(os.Stdin)
	if err != nil {
		return nil, err
	}
	out, err := ownPipe(os.Stdout)
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	c := &pipes{from: in, in: in, out: out}
	if err := protocol.WritePreface(c); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("greet the coordinator: %w", err)
	}
	return sendqueue.New(c), nil
}

// ownPipe is another descriptor of a pipe, for Go's poller: closing it ends a read.
func ownPipe(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", f.Name(), err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("take %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// RemoveSelf removes the file of this running program and its folder, if that is one
// that the script of ssh made: what ssh copied is gone as soon as it runs, whatever
// ends it.
func RemoveSelf() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to remove it: %w", err)
	}
	dir := filepath.Dir(self)
	if !strings.HasPrefix(filepath.Base(dir), folderPrefix) {
		return fmt.Errorf("%s is not a copy that was made by ssh, and is not removed", self)
	}
	if err := os.Remove(self); err != nil {
		return fmt.Errorf("remove this program: %w", err)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("remove this program's folder: %w", err)
	}
	return nil
}
