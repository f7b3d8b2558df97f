package ttl

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func wantTTL(fd uintptr) (four, six error) {
	four = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IP, windowsHopLimit, 1)
	six = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IPV6, windowsHopLimit, 1)
	return four, six
}

func receivedTTL(control []byte) (int, error) {
	return windowsReceivedTTL(control, int(unsafe.Sizeof(uintptr(0)))), nil
}
