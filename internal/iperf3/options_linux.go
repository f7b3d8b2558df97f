package iperf3

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// packetBuffer is the receive buffer asked for datagrams, in bytes.
const packetBuffer = 4 << 20

// apply sets the options on a socket. Before a socket connects is the only
// time at which MSS and buffers are effective in full.
func (o options) apply(raw syscall.RawConn) error {
	var inner *refusal
	err := raw.Control(func(fd uintptr) { inner = o.set(int(fd)) })
	if inner != nil {
		return inner
	}
	return err
}

func (o options) set(fd int) *refusal {
	if o.device != "" {
		if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, o.device); err != nil {
			return refuseErrno(codeMessage, err, "bind to the device "+o.device)
		}
	}
	if o.mss > 0 && !o.udp {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.mss); err != nil {
			return refuseErrno(codeMSS, err, fmt.Sprintf("set the MSS to %d bytes", o.mss))
		}
	}
	if o.window > 0 {
		for name, option := range map[string]int{"send": unix.SO_SNDBUF, "receive": unix.SO_RCVBUF} {
			err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, o.window)
			have, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
			if err = errors.Join(err, err2); err != nil {
				return refuseErrno(codeBuffer, err, "set the "+name+" buffer")
			}
			// The kernel doubles what it was asked and clamps silently.
			if have < o.window {
				return refuse(codeBuffer, "the %s buffer became %d bytes where %d were asked for (see net.core.rmem_max and wmem_max)", name, have, o.window)
			}
		}
	}
	if o.udp && o.window == 0 {
		// As much as the kernel allows: a burst should not be lost in this host.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, packetBuffer)
	}
	if o.tos > 0 {
		// A socket of IPv6 carries IPv4 too; either may fail, not both.
		four := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, o.tos)
		six := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, o.tos)
		if four != nil && six != nil {
			return refuseErrno(codeSetTOS, four, fmt.Sprintf("set the type of service %d", o.tos))
		}
	}
	if o.pacing >= 8 {
		if err := unix.SetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, uint64(o.pacing/8)); err != nil {
			return refuseErrno(codePacing, err, fmt.Sprintf("set the pacing rate to %.0f bit/s", o.pacing))
		}
	}
	if o.dontFragment && o.udp {
		// Only for IPv4: IPv6 never fragments on the way.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	return nil
}

func refuseErrno(c code, err error, what string) *refusal {
	r := refuse(c, "%s: %v", what, err)
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.errno = int32(errno)
	}
	return r
}

// noSuchAlgorithm says that the kernel lacks a congestion control algorithm, as
// opposed to forbidding it.
func noSuchAlgorithm(err error) bool { return errors.Is(err, unix.ENOENT) }

// passing says whether a send of a datagram may succeed when tried again: the
// queue of the interface was full.
func passing(err error) bool { return errors.Is(err, unix.ENOBUFS) }

// pause sleeps on the calling thread: a timer of the Go runtime would wake
// another thread first.
func pause(d time.Duration) {
	spec := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&spec, nil) // interrupted early, the caller looks at the clock again
}

// cpuTime is the CPU time that this process has used.
func cpuTime() (user, system time.Duration) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// sinceBoot is what the monotonic clock of iperf3 shows.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// segmentOf is the MSS of a connection, 0 if unknown.
func segmentOf(c *net.TCPConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	mss := 0
	err = raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil {
			mss = v
		}
	})
	if err != nil {
		return 0
	}
	return mss
}
