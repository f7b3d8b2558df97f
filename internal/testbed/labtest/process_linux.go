package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// Descendants are the command lines of the processes below one.
func Descendants(root int) map[int]string {
	found := make(map[int]string)
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", root)) // the pattern is well formed
	for _, file := range files {
		children, _ := os.ReadFile(file) // a thread that has ended has none
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); err == nil {
				found[child] = strings.ReplaceAll(string(line), "\x00", " ")
			}
			for pid, line := range Descendants(child) {
				found[pid] = line
			}
		}
	}
	return found
}
