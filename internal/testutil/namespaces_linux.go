package testutil

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv tells a test that it is in the namespaces it asked for.
const insideEnv = "HOPBENCH_TEST_IN_NAMESPACE"

// InNamespaces runs the body of a test in a process of its own with new
// namespaces (flags of clone(2)), as root there. It needs no privileges.
func InNamespaces(t *testing.T, flags uintptr, body func(*testing.T)) {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		body(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	Need(t, !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC), "the right to make namespaces")
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// LoopbackUp brings up the loopback of a new network namespace.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
