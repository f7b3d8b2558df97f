//go:build !linux

package main

import "errors"

func run([]string) (int, error) { return 0, errors.New("needs Linux") }
