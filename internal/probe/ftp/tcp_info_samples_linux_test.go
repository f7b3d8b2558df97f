package ftp

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The kernel gives connections to several ports of a server one port of the client, if it
// likes to: their samples are told apart by both ends, and are the same if asked for again.
func TestSamplesOfConnectionsFromOnePort(t *testing.T) {
	var w watcher
	w.begin(time.Now(), 2, 0)
	// A port that is bound is nobody else's; one that connect chooses may also have a
	// connection of another program, and then cannot be bound.
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		}); failed != nil {
			return failed
		}
		return err
	}}
	var served []net.Conn
	for _, bytes := range []int64{1, 100_000} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		defer ln.Close()
		near, err := dialer.Dial("tcp", ln.Addr().String())
		testutil.OK(t, err)
		defer near.Close()
		dialer.LocalAddr = near.LocalAddr()
		far, err := ln.Accept()
		testutil.OK(t, err)
		defer far.Close()
		stop := w.add(far, attach(t, far))
		_, err = far.Write(make([]byte, bytes))
		testutil.OK(t, err)
		_, err = io.CopyN(io.Discard, near, bytes)
		testutil.OK(t, err)
		stop()
		served = append(served, far)
	}
	if a, b := served[0].RemoteAddr().String(), served[1].RemoteAddr().String(); a != b {
		t.Fatalf("connections from %s and %s, not from one port", a, b)
	}
	// As if it had begun before START.
	w.begin(time.Now().Add(-time.Hour), 2, 0)
	for i, sent := range []int64{1, 100_000} {
		local, remote := served[i].LocalAddr().String(), served[i].RemoteAddr().String()
		final, series := w.of(local, remote)
		if final == nil || final.SentBytes-final.RetransmittedBytes != sent || len(series) == 0 {
			t.Fatalf("connection %d: %+v and %d samples, want %d bytes sent", i, final, len(series), sent)
		}
		at := series[0].At
		if _, again := w.of(local, remote); again[0].At != at || at < 3599 {
			t.Errorf("connection %d: a sample after %v s is one after %v s if asked for again", i, at, again[0].At)
		}
	}
}

// A client may transfer as often as it likes: that takes no more memory.
func TestFewConnectionsAreSampled(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	var w watcher
	for range ftp.MaxSegments + 1 {
		near, err := net.Dial("tcp", ln.Addr().String())
		testutil.OK(t, err)
		far, err := ln.Accept()
		testutil.OK(t, err)
		w.add(far, attach(t, far))()
		_, _ = near.Close(), far.Close() // nothing was sent
	}
	if len(w.samplers) != ftp.MaxSegments {
		t.Errorf("%d connections were sampled, at most %d may be", len(w.samplers), ftp.MaxSegments)
	}
}
