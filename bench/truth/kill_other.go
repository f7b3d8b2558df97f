//go:build !linux

package main

import "errors"

func kill(string) error { return errors.New("labs run on Linux only") }
