//go:build unix

package switching

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// group is a command and all that it starts: a session of its own, which has no terminal.
type group struct{ id int }

// together has a command's whole session told to end when its context is over.
func together(cmd *exec.Cmd) *group {
	g := &group{}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	return g
}

func (g *group) started(cmd *exec.Cmd) { g.id = cmd.Process.Pid }

// over ends what did not end when it was told to.
func (g *group) over(ended bool) {
	if ended && g.id > 0 {
		_ = unix.Kill(-g.id, unix.SIGKILL) // there may be nothing left
	}
}
