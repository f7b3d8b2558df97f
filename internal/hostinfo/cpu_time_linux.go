package hostinfo

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// userHZ is the unit of /proc/stat: USER_HZ is 100 on every Linux port that Go
// runs on (proc(5), asm-generic/param.h).
const userHZ = 100

// ReadCPU reads the host's CPU time from /proc/stat and the clock.
//
// The time of tasks and interrupts in /proc/stat is mostly sampled: whoever
// runs at a tick is charged for all of it, which misses what sleeps between
// ticks. Idle time is measured where the kernel stops the tick of an idle
// CPU (CONFIG_NO_HZ; get_idle_time in fs/proc/stat.c), interrupts that
// an idle CPU serves taken out. So Busy is the time that passed less the
// idle time, to 10 ms of all CPUs together, while SoftIRQ stays as coarse
// as ticks are.
func ReadCPU() (CPUTimes, error) {
	text, err := readProc("/proc/stat")
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read CPU time: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return CPUTimes{}, fmt.Errorf("read CPU time: %w", err)
	}
	return parseStat(text, time.Duration(now.Nano()))
}

// parseStat reads /proc/stat, proc(5), as it was after a time since some start.
// A line "cpu" holds ticks spent as user nice system idle iowait irq softirq
// steal guest guest_nice.
func parseStat(text []byte, after time.Duration) (CPUTimes, error) {
	var t CPUTimes
	var all statLine
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch {
		case string(name) == "ctxt":
			n, err := strconv.ParseUint(string(rest), 10, 64)
			if err != nil {
				return CPUTimes{}, fmt.Errorf("read context switches: %w", err)
			}
			t.Switches = n
		case bytes.HasPrefix(name, []byte("cpu")):
			ticks, err := parseTicks(rest)
			if err != nil {
				return CPUTimes{}, fmt.Errorf("read CPU time: %w", err)
			}
			if string(name) == "cpu" {
				all = ticks
			} else {
				t.Each = append(t.Each, after-ticks.idle)
			}
		}
	}
	t.CPUs = len(t.Each)
	// Sandboxes that have the file but keep no accounts fill it with zeros.
	if !all.kept || t.CPUs == 0 {
		return CPUTimes{}, errors.New("read CPU time: /proc/stat keeps no accounts")
	}
	t.Total = after * time.Duration(t.CPUs)
	t.Busy, t.SoftIRQ, t.Steal = t.Total-all.idle, all.softIRQ, all.steal
	return t, nil
}

// statLine is a line of /proc/stat.
type statLine struct {
	kept                 bool // something is not zero
	idle, softIRQ, steal time.Duration
}

func parseTicks(text []byte) (statLine, error) {
	var l statLine
	fields := bytes.Fields(text)
	for i, field := range fields[:min(len(fields), 8)] { // guest time is already part of user and nice
		ticks, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return statLine{}, err
		}
		// On large hosts that run for years this wraps around, and so do the
		// sums, which leaves differences what they are.
		d := time.Duration(ticks) * (time.Second / userHZ)
		l.kept = l.kept || ticks > 0
		switch i {
		case 3, 4: // idle, idle with input or output under way
			l.idle += d
		case 6:
			l.softIRQ = d
		case 7:
			l.steal = d
		}
	}
	return l, nil
}
