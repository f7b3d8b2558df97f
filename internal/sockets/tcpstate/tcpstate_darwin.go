package tcpstate

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Read reads the system's struct tcp_connection_info, At a given time.
func Read(fd int, at time.Duration) (measurement.TCPInfo, error) {
	k, err := unix.GetsockoptTCPConnectionInfo(fd, unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
	if err != nil {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_CONNECTION_INFO: %w", err)
	}
	return darwinTCPInfo(unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k)), at)
}
