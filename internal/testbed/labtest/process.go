package labtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
			maps.Copy(found, Descendants(child))
		}
	}
	return found
}
