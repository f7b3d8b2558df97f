//go:build !linux

package iperf3

import (
	"net"
	"syscall"
	"time"
)

// apply refuses what only Linux does here; the buffers stay the system's own.
func (o options) apply(syscall.RawConn) error {
	switch {
	case o.device != "":
		return refuse(codeMessage, "binding to a device is not supported on this operating system")
	case o.window > 0:
		return refuse(codeBuffer, "setting socket buffers is not supported on this operating system")
	case o.mss > 0:
		return refuse(codeMSS, "setting the MSS is not supported on this operating system")
	case o.tos > 0:
		return refuse(codeSetTOS, "setting the type of service is not supported on this operating system")
	case o.pacing > 0:
		return refuse(codePacing, "pacing by the kernel is not supported on this operating system")
	}
	return nil
}

func noSuchAlgorithm(error) bool { return true }

func passing(error) bool { return false }

func pause(d time.Duration) { time.Sleep(d) }

// cpuTime is not known here.
func cpuTime() (user, system time.Duration) { return 0, 0 }

// sinceBoot is not known here.
func sinceBoot() time.Duration { return 0 }

func refuseErrno(c code, err error, what string) *refusal {
	return refuse(c, "%s: %v", what, err)
}

// segmentOf is not known here.
func segmentOf(*net.TCPConn) int { return 0 }
