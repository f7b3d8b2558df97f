package cabletest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// insideEnv marks a process that Reexec started.
const insideEnv = "HOPBENCH_CABLETEST_INSIDE"

// Inside reports whether the process is in namespaces of its own.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Reexec runs this program again, with the same arguments, in new user and
// network namespaces where it has every privilege over the network and none
// over the host, and returns its exit status. An error means that it could not
// be started.
func Reexec() (status int, err error) {
	// The death signal is sent when the starting thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attributes := &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
		Pdeathsig:                  syscall.SIGKILL,
	}
	cmd := command(attributes)
	startErr := cmd.Start()
	if startErr != nil && os.Getuid() == 0 {
		// Root does not need a user namespace.
		cmd = command(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL})
		startErr = cmd.Start()
	}
	if startErr != nil {
		return 0, fmt.Errorf("start in new namespaces: %w", startErr)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

func command(attributes *syscall.SysProcAttr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attributes
	return cmd
}
