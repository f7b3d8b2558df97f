package testutil

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// enteredEnv tells a program that it runs inside its own namespaces.
const enteredEnv = "HOPBENCH_TEST_ENTERED"

// Enter runs this program again, with the same arguments, in new user, network
// and mount namespaces, where it has every right over networks and mounts of its own and none
// over the host, and exits with the status of that. It returns in the process that is to do
// the work: inside, or outside when no namespaces can be had or a fuzzing engine
// owns this process. Call it first in TestMain.
func Enter() {
	if Entered() {
		return
	}
	for _, arg := range os.Args[1:] {
		// Fuzzing talks to its workers by inherited descriptors.
		if strings.HasPrefix(arg, "-test.fuzz=") || strings.HasPrefix(arg, "-test.fuzzworker") || strings.HasPrefix(arg, "-test.list") {
			return
		}
	}
	// The parent-death signal is sent when the starting thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := again(&syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	if err != nil && os.Getuid() == 0 { // who does not need a user namespace
		cmd, err = again(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no user and network namespaces:", err)
		return
	}
	err = cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintln(os.Stderr, "wait for the program in its namespaces:", err)
		os.Exit(1)
	}
	os.Exit(max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()))
}

// again starts this program once more.
func again(how *syscall.SysProcAttr) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), enteredEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	how.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = how
	return cmd, cmd.Start()
}

// Entered tells whether this process has namespaces of its own.
func Entered() bool { return os.Getenv(enteredEnv) != "" }

// OnThread calls f on a thread of its own, which ends with it, so that f may
// change the thread's namespace.
func OnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		result <- f()
	}()
	return <-result
}
