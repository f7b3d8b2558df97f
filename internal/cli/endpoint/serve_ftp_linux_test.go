package endpoint

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// All that one client of FTP fetches at a time is as fast as one test may be, on however many
// connections.
func TestConnectionsOfAClientShareTheRate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	from := func(address string) *net.TCPConn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c, err := d.Dial("tcp", ln.Addr().String())
		testutil.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		served, err := ln.Accept()
		testutil.OK(t, err)
		t.Cleanup(func() { _ = served.Close() })
		return served.(*net.TCPConn)
	}
	const rate = 80e6
	watch := pacedTo(rate)
	var conns []*net.TCPConn
	var remove []func()
	for _, address := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.1"} {
		c := from(address)
		socket, err := sockets.Attach(c)
		testutil.OK(t, err)
		conns, remove = append(conns, c), append(remove, watch(c, socket))
	}
	check := func(when string, want ...float64) {
		t.Helper()
		for i, c := range conns {
			raw, err := c.SyscallConn()
			testutil.OK(t, err)
			var got int
			var failed error
			testutil.OK(t, raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE) }))
			testutil.OK(t, failed)
			if want[i] > 0 && float64(got)*8 != want[i] {
				t.Errorf("%s, connection %d sends at %d bytes per second, want %.0f bit/s", when, i, got, want[i])
			}
		}
	}
	check("with four of one client", rate/4, rate/4, rate, rate/4, rate/4)
	remove[1]()
	remove[3]()
	check("with two", rate/2, 0, rate, 0, rate/2)
	for _, i := range []int{0, 2, 4} {
		remove[i]()
	}
}
