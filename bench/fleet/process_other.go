//go:build !linux

package main

import "time"

// memory and processorTime are known on Linux alone.
func memory(string) int64          { return 0 }
func processorTime() time.Duration { return 0 }
