package sockets

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// TCPInfo samples the system's struct tcp_connection_info, At a given time.
func (c *Conn) TCPInfo(at time.Duration) (measurement.TCPInfo, error) {
	var k *unix.TCPConnectionInfo
	err := c.ask(func(fd uintptr) (err error) {
		k, err = unix.GetsockoptTCPConnectionInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
		return err
	})
	if err != nil {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_CONNECTION_INFO: %w", err)
	}
	return darwinTCPInfo(unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k)), at)
}

func (c *Conn) intOption(level, option int) int {
	var v int
	err := c.ask(func(fd uintptr) (err error) {
		v, err = unix.GetsockoptInt(int(fd), level, option)
		return err
	})
	if err != nil {
		return 0
	}
	return v
}

// MSS is the largest segment this end sends, 0 if unknown.
func (c *Conn) MSS() int { return c.intOption(unix.IPPROTO_TCP, unix.TCP_MAXSEG) }

// ReceiveBuffer is the system's receive buffer in bytes.
func (c *Conn) ReceiveBuffer() int { return c.intOption(unix.SOL_SOCKET, unix.SO_RCVBUF) }

// SendBuffer is the system's send buffer in bytes.
func (c *Conn) SendBuffer() int { return c.intOption(unix.SOL_SOCKET, unix.SO_SNDBUF) }
