//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// There are no namespaces here, and so no programs in them.
func ownGroup(*exec.Cmd) {}

func signalGroup(c *exec.Cmd, s os.Signal) error { return c.Process.Signal(s) }
