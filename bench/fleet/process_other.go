//go:build !linux

package main

import "time"

var began = time.Now()

// monotonic is the time of this process, which others do not share here.
func monotonic() int64 { return int64(time.Since(began)) }

// memory and processorTime are known on Linux alone.
func memory(string) int64          { return 0 }
func processorTime() time.Duration { return 0 }

func forgetPeak() error { return nil }
