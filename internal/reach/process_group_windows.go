package reach

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// apart starts a process that Ctrl-C does not reach: it is for hopbench, which ends
// its agents in order.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// killAll kills a process.
func killAll(p *os.Process) { _ = p.Kill() }

// isBroken says whether an error is that of a pipe that nobody reads.
func isBroken(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
