package datagram

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What tells the time to live and the clock of a path takes that path: the device and the
// mark of the test.
func TestStampsAndTTLTakeTheDevice(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	defer server.Close()
	at := server.LocalAddr().(*net.UDPAddr).AddrPort()
	ready := protocol.Ready{Server: at.String(), Cookie: make([]byte, protocol.CookieBytes)}
	req := session.Request{Target: at, Spec: measurement.Spec{Device: "lo", DSCP: 46}}
	c, err := dialPolled(t.Context(), req, ready)
	testutil.OK(t, err)
	defer c.Close()
	raw, err := c.SyscallConn()
	testutil.OK(t, err)
	var device string
	var tos int
	testutil.OK(t, raw.Control(func(fd uintptr) {
		if device, err = unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err == nil {
			tos, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS)
		}
	}))
	testutil.OK(t, err)
	if device != "lo" || tos != 46<<2 {
		t.Errorf("device %q, type of service %#x", device, tos)
	}
	req.Spec.Device = "nodevice"
	if c, err := dialPolled(t.Context(), req, ready); err == nil {
		_ = c.Close()
		t.Error("a device that there is not was not missed")
	}
}
