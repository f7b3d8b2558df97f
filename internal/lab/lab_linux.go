package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/supervisor"
	"golang.org/x/sys/unix"
)

// selfExecutable is the running program, also when its file was replaced or
// removed meanwhile, as `go run` does.
const selfExecutable = "/proc/self/exe"

// Main runs the role of a lab that args, the program's os.Args, ask for.
// handled is false when they ask for none. A program that starts labs calls it
// before anything else.
func Main(args []string) (code int, handled bool) { return supervisor.Main(args) }

// launch starts the supervisor and everything that listens to it.
func (l *Lab) launch(executable string) error {
	mine, its, err := message.SocketPair("lab")
	if err != nil {
		return err
	}
	defer its.Close()
	conn, err := message.Open(mine)
	if err != nil {
		return err
	}
	l.conn = conn
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	cmd := supervisorCommand(cmp.Or(executable, selfExecutable), its, stderrWriter)
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the child
		// ends, not the process; so this thread stays until the child has
		// ended (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		stderrWriter.Close()
		if err == nil {
			l.process = cmd.Process
		}
		started <- err
		if err == nil {
			l.wait(cmd)
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(apply.ExplainStart(err), stderr.Close(), conn.Close())
	}
	l.stderr = tailOf(stderr)
	go l.read()
	return nil
}

func supervisorCommand(executable string, control, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(executable)
	cmd.Args = []string{supervisor.Role}
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{control}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		// A session of its own: Ctrl-C reaches the caller alone, who then
		// closes the lab in good order.
		Setsid: true,
	}
	mapIDs(cmd.SysProcAttr)
	return cmd
}

// mapIDs gives a lab that root holds all users and groups there are, so that programs in it
// can become another one, as tcpdump does. Anybody else may map only its own ids, one of
// each, and the group only when setgroups(2) is off (user_namespaces(7)).
func mapIDs(attr *syscall.SysProcAttr) {
	setgroups, _ := os.ReadFile("/proc/self/setgroups")
	if os.Geteuid() == 0 && strings.TrimSpace(string(setgroups)) == "allow" && mayMapIDs() {
		users, err := sameIDs("/proc/self/uid_map")
		groups, groupsErr := sameIDs("/proc/self/gid_map")
		if err == nil && groupsErr == nil {
			attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = users, groups, true
			return
		}
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
}

// mayMapIDs says whether this process may map ids that are not its own.
func mayMapIDs() bool {
	var now [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &now[0])
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return err == nil && now[0].Effective&need == need
}

// sameIDs maps every id of this process's namespace to itself. The file has a line for each
// range: its first id here, its first id in the namespace outside, how many.
func sameIDs(file string) (all []syscall.SysProcIDMap, err error) {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		var first, outside, count int
		if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
			return nil, err
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: count})
	}
	return all, err
}

// wait runs in the thread that started the supervisor until that has ended.
func (l *Lab) wait(cmd *exec.Cmd) {
	err := cmd.Wait()
	var status syscall.WaitStatus
	if cmd.ProcessState != nil {
		status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
	var how string
	if cmd.ProcessState != nil {
		how = supervisor.Describe(status)
	} else {
		how = fmt.Sprintf("could not be waited for: %v", err)
	}
	// Its death takes all others along, so it is the first cause only if no
	// other death was reported; what was reported is still to be read.
	<-l.readDone
	l.fail(errors.New("the lab's supervisor " + how))
	close(l.exited)
}
