package iperf3

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Of a client that is not served, a server keeps no parameters: ten thousand may be at its door.
func TestDeniedClientsTakeNoMemory(t *testing.T) {
	client, served := accepted(t)
	message := binary.BigEndian.AppendUint32(nil, maxParams)
	message = append(message, make([]byte, maxParams)...)
	s := newSession(&Server{}, cookie{}, &Conn{TCPConn: served}, slog.New(slog.DiscardHandler))
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := client.Write(message); err != nil {
			t.Error(err)
		}
		_ = client.CloseWrite()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.refuseAfterParams("nobody is")
	runtime.ReadMemStats(&after)
	sending.Wait()
	if err == nil || after.TotalAlloc-before.TotalAlloc >= maxParams {
		t.Errorf("%d bytes were kept, %v", after.TotalAlloc-before.TotalAlloc, err)
	}
	testutil.OK(t, served.Close())
	told, err := io.ReadAll(client)
	testutil.OK(t, err)
	if len(told) != 10 || state(int8(told[1])) != serverError || told[5] != byte(codeAuthorization) {
		t.Errorf("the client is told % x", told)
	}
}

// accepted is two ends of a connection.
func accepted(t *testing.T) (client, served *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	s, err := ln.Accept()
	testutil.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// A client that waited for its turn in vain is told so, although its time for the cookie has
// passed.
func TestDenyAfterAWait(t *testing.T) {
	client, served := accepted(t)
	testutil.OK(t, served.SetDeadline(time.Unix(1, 0)))
	(&Server{log: slog.New(slog.DiscardHandler)}).deny(served)
	testutil.OK(t, served.Close())
	told, err := io.ReadAll(client)
	testutil.OK(t, err)
	if len(told) != 1 || state(int8(told[0])) != accessDenied {
		t.Errorf("the client is told % x, want that access is denied", told)
	}
}
