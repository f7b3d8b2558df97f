package labtest

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
)

// Kill kills the one process below this one whose command line matches a pattern:
// "hopbench-lab-cable .*hopped/fw" is what carries the frames of a link of the hop fw,
// "^hopbench:vm2 " the agent of the node vm2.
func Kill(pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	var victims []int
	for pid, line := range Descendants(os.Getpid()) {
		if matches.MatchString(line) {
			victims = append(victims, pid)
		}
	}
	if len(victims) != 1 {
		return fmt.Errorf("%d processes match %s, want 1", len(victims), pattern)
	}
	return syscall.Kill(victims[0], syscall.SIGKILL)
}
