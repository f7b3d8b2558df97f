//go:build unix

package reach

import (
	"errors"
	"os"
	"syscall"
)

// apart starts a process in a session of its own: Ctrl-C is for hopbench, which ends
// its agents in order, and what has no terminal cannot ask there.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killAll kills a process that was started apart, with those that it started.
func killAll(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// isBroken says whether an error is that of a pipe that nobody reads.
func isBroken(err error) bool { return errors.Is(err, syscall.EPIPE) }
