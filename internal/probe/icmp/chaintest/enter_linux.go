package chaintest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// enteredEnv tells a test binary that it runs inside its own namespaces.
const enteredEnv = "HOPBENCH_TEST_ENTERED"

// Enter runs the test binary again in new user and network namespaces, where
// it has every right over networks of its own, and exits with the status of
// that. It returns in the process that is to run the tests: inside, or outside
// when no namespaces can be had or a fuzzing engine owns this process. Call
// it first in TestMain.
func Enter() {
	if os.Getenv(enteredEnv) != "" {
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
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), enteredEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "chaintest: no user and network namespaces:", err)
		return
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "chaintest:", err)
		os.Exit(1)
	}
	os.Exit(max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()))
}

// Entered tells whether this process has namespaces of its own.
func Entered() bool { return os.Getenv(enteredEnv) != "" }
