package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a slow path brings about is served: the sender's buffer takes nothing for
// longer than a window, while the receiver goes on.
func TestSlowTransferIsServed(t *testing.T) {
	testutil.Longer(t, func(factor float64) string {
		return slowTransfer(t, time.Duration(factor*float64(2*time.Second)))
	})
}

// Who watches a connection sees all of a transfer, and not only that of which the system took
// the last into its buffer.
func TestWatchedUntilAllIsThere(t *testing.T) {
	const size = 2_000_000
	small := func(_, _ string, raw syscall.RawConn) error {
		var refused error
		err := raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16384) })
		return errors.Join(err, refused)
	}
	for _, store := range []bool{false, true} {
		unacknowledged := make(chan int64, 2)
		watch := func(c net.Conn, conn *sockets.Conn) func() {
			testutil.OK(t, c.(*net.TCPConn).SetWriteBuffer(200_000))
			return func() {
				info, err := conn.TCPInfo(0)
				testutil.OK(t, err)
				if info.SentBytes-info.RetransmittedBytes < size {
					t.Errorf("store %v: %d bytes were sent of %d", store, info.SentBytes, size)
				}
				unacknowledged <- conn.Unacknowledged()
			}
		}
		at := serve(t, size, func(o *ServerOptions) {
			if o.Store = store; !store {
				o.Watch = watch
			}
			o.Prepare = func(c *net.TCPConn) (net.Conn, error) {
				if store {
					return c, c.SetReadBuffer(16384)
				}
				return c, nil
			}
		})
		o := options(at, 1)
		o.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			d := &net.Dialer{}
			if !store {
				d.Control = small
			}
			return d.DialContext(ctx, "tcp", a.String())
		}
		var err error
		if store {
			o.Watch = watch
			c, opened := Open(t.Context(), o)
			testutil.OK(t, opened)
			err = c.Upload(t.Context(), NewContent(), size)
			c.Close()
		} else {
			_, err = download(t, o)
		}
		testutil.OK(t, err)
		if left := <-unacknowledged; left > 0 {
			t.Errorf("store %v: %d bytes were not there yet", store, left)
		}
	}
}

// slowTransfer says whether this machine read as slowly as it was to, and no slower.
func slowTransfer(t *testing.T, window time.Duration) (lacking string) {
	ended := make(chan Transfer, 1)
	at := serveAt(t, "127.0.0.1:0", 1_000_000_000, func(o *ServerOptions) {
		endsOf(o, ended)
	}, func(s *Server) { s.bounds.window = window })
	c := call(t, at)
	c.logIn()
	// Segments as on a path, and a window that opens one by one: those of loopback
	// and a large buffer open it in steps that take a slow reader longer than this.
	c.dialer.Control = func(_, _ string, raw syscall.RawConn) error {
		var refused error
		err := raw.Control(func(fd uintptr) {
			refused = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1400),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16384))
		})
		return errors.Join(err, refused)
	}
	d := c.data("RETR small.bin")
	var longest time.Duration // between two reads
	for begun, last := time.Now(), time.Now(); time.Since(begun) < 5*window/2; {
		_, broken := io.CopyN(io.Discard, d, 1024)
		longest, last = max(longest, time.Since(last)), time.Now()
		select {
		case x := <-ended: // the client has bytes to read for long after
			broken = x.Err
		case <-time.After(window / 40):
		}
		switch {
		case broken != nil && longest > window/4:
			return fmt.Sprintf("two reads were %v apart", longest)
		case broken != nil:
			t.Fatalf("after %v the server gave up: %v", time.Since(begun), broken)
		}
	}
	return ""
}
