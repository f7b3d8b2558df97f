package labtest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"time"
)

// Kill kills the one process below this one whose command line matches a pattern:
// "hopbench-lab-link .*hopped/fw" is what carries the frames of a link of the hop fw,
// "^hopbench:vm2 " the agent of the node vm2.
func Kill(pattern string) error {
	pid, err := find(pattern)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Stop has the process that Kill would kill stand still for a while.
func Stop(pattern string, d time.Duration) error {
	pid, err := find(pattern)
	if err != nil {
		return err
	}
	stopped := syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(d)
	return errors.Join(stopped, syscall.Kill(pid, syscall.SIGCONT))
}

// find finds the one process whose command line matches a pattern.
func find(pattern string) (pid int, err error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return 0, err
	}
	var victims []int
	for pid, line := range Descendants(os.Getpid()) {
		if matches.MatchString(line) {
			victims = append(victims, pid)
		}
	}
	if len(victims) != 1 {
		return 0, fmt.Errorf("%d processes match %s, want 1", len(victims), pattern)
	}
	return victims[0], nil
}
