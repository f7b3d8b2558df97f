package sockets

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/hopbench/hopbench/internal/measurement"
)

// sioTCPInfo is SIO_TCP_INFO of mstcpip.h: _WSAIORW(IOC_VENDOR, 39).
const sioTCPInfo = windows.IOC_INOUT | windows.IOC_VENDOR | 39

// TCPInfo samples the system's TCP_INFO, At a given time: version 1, or
// version 0 where the system is older (Windows 10 version 1703).
func (c *Conn) TCPInfo(at time.Duration) (measurement.TCPInfo, error) {
	b := make([]byte, windowsTCPInfo1Bytes)
	var n uint32
	err := c.ask(func(fd uintptr) (err error) {
		for version := int32(1); version >= 0; version-- {
			err = windows.WSAIoctl(windows.Handle(fd), sioTCPInfo, (*byte)(unsafe.Pointer(&version)), 4,
				&b[0], uint32(len(b)), &n, nil, 0)
			if err == nil {
				return nil
			}
		}
		return err
	})
	if err != nil {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	return windowsTCPInfo(b[:min(int(n), len(b))], at)
}

func (c *Conn) socketOption(option int) int {
	var v int
	err := c.ask(func(fd uintptr) (err error) {
		v, err = windows.GetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, option)
		return err
	})
	if err != nil {
		return 0
	}
	return v
}

// MSS is the largest segment this end sends, 0 if unknown.
func (c *Conn) MSS() int {
	info, err := c.TCPInfo(0)
	if err != nil {
		return 0
	}
	return int(info.MSS)
}

// ReceiveBuffer is the system's receive buffer in bytes.
func (c *Conn) ReceiveBuffer() int { return c.socketOption(windows.SO_RCVBUF) }

// SendBuffer is the system's send buffer in bytes.
func (c *Conn) SendBuffer() int { return c.socketOption(windows.SO_SNDBUF) }
