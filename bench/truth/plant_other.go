//go:build !linux

package main

import (
	"errors"
	"time"
)

var errLinux = errors.New("labs run on Linux only")

func kill(string) error { return errLinux }

func stop(string, time.Duration) error { return errLinux }

func stepClock(time.Duration) error { return errLinux }
