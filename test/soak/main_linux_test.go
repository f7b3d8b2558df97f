package soak

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// insideEnv marks the process that runs the tests in a network of its own.
const insideEnv = "HOPBENCH_SOAK_INSIDE"

// badAddresses is how many addresses bad clients have, each of IPv4 and IPv6.
const badAddresses = 8

// badAddress is where bad client number i connects from, ordinaryAddress where
// an ordinary one does; the honest ones do from 127.0.0.1 and ::1. Those of IPv6
// have a /64 each.
func badAddress(i int, v6 bool) netip.Addr      { return addressOf(0, 2+i, v6) }
func ordinaryAddress(i int, v6 bool) netip.Addr { return addressOf(1, 2+i, v6) }

func addressOf(group, i int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:0:%d:%d::1", group, i))
	}
	return netip.AddrFrom4([4]byte{127, 0, byte(group), byte(i)})
}

// TestMain runs the tests in a network namespace in which all addresses are
// loopback's, so that an open server there is reached by nobody else and
// different addresses are as easily had as different clients.
func TestMain(m *testing.M) {
	if text := os.Getenv(launchEnv); text != "" {
		fmt.Fprintln(os.Stderr, launch(text)) // it returns only if it fails
		os.Exit(1)
	}
	if os.Getenv(insideEnv) == "" {
		status, err := runInside()
		if err == nil {
			os.Exit(status)
		}
		fmt.Fprintf(os.Stderr, "on the host's loopback, over IPv4 alone: %v\n", err)
	}
	goleak.VerifyTestMain(m)
}

// inside says whether this process has a network of its own.
func inside() bool { return os.Getenv(insideEnv) != "" }

// runInside runs this program again in a new network namespace and returns its
// exit status. Root stays the host's, since it is to become another user; others
// need a user namespace.
func runInside() (status int, err error) {
	runtime.LockOSThread() // the death signal is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Args[0] = os.Args[0]
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("start in a new network namespace: %w", err)
	}
	err = c.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// network sets up the namespace's loopback and says whether it has IPv6.
func network(t *testing.T) (v6 bool) {
	t.Helper()
	if !inside() {
		return false
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatalf("set up the loopback interface: %v", err)
	}
	for i := range badAddresses + workers {
		ip := badAddress(i, true)
		if i >= badAddresses {
			ip = ordinaryAddress(i-badAddresses, true)
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(128, 128)}, Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrAdd(lo, address); err != nil && !errors.Is(err, unix.EEXIST) {
			t.Logf("over IPv4 alone: %v", err)
			return false
		}
	}
	return true
}

// starter starts processes that end with this one, from a thread that lives as
// long: the kernel sends the death signal when the starting thread ends.
type starter chan func()

// newStarter gives its processes a nice value.
func newStarter(t *testing.T, nice int) starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread()                           // never unlocked: the thread ends with the goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice) // else they run as everybody does
		for job := range s {
			job()
		}
	}()
	t.Cleanup(func() { close(s) })
	return s
}

func (s starter) start(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error, 1)
	s <- func() { done <- c.Start() }
	return <-done
}
