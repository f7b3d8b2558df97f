package iperf3

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A client that waited for its turn in vain is told so, although its time for the cookie has
// passed.
func TestDenyAfterAWait(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	defer client.Close()
	served, err := ln.Accept()
	testutil.OK(t, err)
	defer served.Close()
	testutil.OK(t, served.SetDeadline(time.Unix(1, 0)))
	(&Server{log: slog.New(slog.DiscardHandler)}).deny(served.(*net.TCPConn))
	testutil.OK(t, served.Close())
	told, err := io.ReadAll(client)
	testutil.OK(t, err)
	if len(told) != 1 || state(int8(told[0])) != accessDenied {
		t.Errorf("the client is told % x, want that access is denied", told)
	}
}
