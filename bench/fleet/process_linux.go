package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memory is a line of /proc/self/status (proc(5)), in bytes; 0 where there is none.
func memory(key string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	rest, _, _ = strings.Cut(rest, "kB")
	kib, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
	return kib << 10
}

// processorTime is what this process has taken.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
