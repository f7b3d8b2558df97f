package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// kill kills the one process of the lab whose command line matches a pattern.
func kill(pattern string) error { return labtest.Kill(pattern) }

// stop has it stand still for a while.
func stop(pattern string, d time.Duration) error { return labtest.Stop(pattern, d) }

// stepClock sets the clock of the virtual machine forward, and never that of any other.
func stepClock(by time.Duration) error {
	if _, err := os.Stat(machineJobs); err != nil {
		return errors.New("the clock is set in the virtual machine of test/vm alone")
	}
	to := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
	if err := unix.Settimeofday(&to); err != nil {
		return fmt.Errorf("set the clock by %v: %w", by, err)
	}
	return nil
}
