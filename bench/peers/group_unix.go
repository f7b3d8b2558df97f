//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a program a session of its own, so that what it forks can be ended with it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// signalGroup sends a signal to it and to all that it forked.
func signalGroup(c *exec.Cmd, s os.Signal) error {
	return syscall.Kill(-c.Process.Pid, s.(syscall.Signal))
}
