package hostinfo

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// readRunnable is how many tasks of the whole machine run or wait for a CPU at this
// moment (/proc/loadavg, proc(5)), the caller's thread not among them: the median of a
// few readings over 40 ms.
func readRunnable() (int, error) {
	var readings [5]int
	for i := range readings {
		if i > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		text, err := readProc("/proc/loadavg")
		if err == nil {
			readings[i], err = parseRunnable(text)
		}
		if err != nil {
			return 0, fmt.Errorf("read how many tasks run: %w", err)
		}
	}
	slices.Sort(readings[:])
	return max(readings[len(readings)/2]-1, 0), nil
}

// parseRunnable reads /proc/loadavg: three averages, runnable and existing tasks as
// "1/234", and the latest process.
func parseRunnable(text []byte) (int, error) {
	fields := bytes.Fields(text)
	if len(fields) < 4 {
		return 0, fmt.Errorf("/proc/loadavg has %d fields, want 5", len(fields))
	}
	runnable, _, _ := bytes.Cut(fields[3], []byte("/"))
	return strconv.Atoi(string(runnable))
}

// Governors are those that set the frequency of this machine's CPUs, each once, in order; none
// where the kernel does not set it, as in most virtual machines
// (Documentation/admin-guide/pm/cpufreq.rst).
func Governors() []string {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if err != nil {
		return nil
	}
	var all []string
	for _, file := range files {
		if governor := line(file); governor != "" {
			all = append(all, governor)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
