package switching

import (
	"os/exec"
	"sync/atomic"

	"golang.org/x/sys/windows"
)

// group is a command and all that it starts: a job object (Win32 Job Objects).
type group struct {
	job windows.Handle
	// has says that the command is in the job.
	has atomic.Bool
}

// together has a command's whole job ended when its context is over. Where there is no
// job, at least the command itself is.
func together(cmd *exec.Cmd) *group {
	g := &group{}
	if job, err := windows.CreateJobObject(nil, nil); err == nil {
		g.job = job
	}
	cmd.Cancel = func() error {
		if g.has.Load() {
			return windows.TerminateJobObject(g.job, 1)
		}
		return cmd.Process.Kill()
	}
	return g
}

func (g *group) started(cmd *exec.Cmd) {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
	if err != nil {
		return
	}
	g.has.Store(windows.AssignProcessToJobObject(g.job, process) == nil)
	_ = windows.CloseHandle(process)
}

func (g *group) over(bool) {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}
