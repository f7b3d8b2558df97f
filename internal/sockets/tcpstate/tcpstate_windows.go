package tcpstate

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/hopbench/hopbench/internal/measurement"
)

// sioTCPInfo is SIO_TCP_INFO of mstcpip.h: _WSAIORW(IOC_VENDOR, 39).
const sioTCPInfo = windows.IOC_INOUT | windows.IOC_VENDOR | 39

// Read reads the system's TCP_INFO, At a given time: version 1, or
// version 0 where the system is older (Windows 10 version 1703).
func Read(fd int, at time.Duration) (info measurement.TCPInfo, err error) {
	b := make([]byte, windowsTCPInfo1Bytes)
	var n uint32
	for version := int32(1); version >= 0; version-- {
		err = windows.WSAIoctl(windows.Handle(fd), sioTCPInfo, (*byte)(unsafe.Pointer(&version)), 4,
			&b[0], uint32(len(b)), &n, nil, 0)
		if err == nil {
			return windowsTCPInfo(b[:min(int(n), len(b))], at)
		}
	}
	return info, fmt.Errorf("read TCP_INFO: %w", err)
}

func socketOption(fd, option int) int {
	v, err := windows.GetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, option)
	if err != nil {
		return 0
	}
	return v
}

// MSS is the largest segment this end sends, 0 if unknown.
func MSS(fd int) int {
	info, err := Read(fd, 0)
	if err != nil {
		return 0
	}
	return int(info.MSS)
}

// ReceiveBuffer is the system's receive buffer in bytes.
func ReceiveBuffer(fd int) int { return socketOption(fd, windows.SO_RCVBUF) }

// SendBuffer is the system's send buffer in bytes.
func SendBuffer(fd int) int { return socketOption(fd, windows.SO_SNDBUF) }
