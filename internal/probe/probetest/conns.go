// Package probetest is what the tests of several kinds of tests share.
package probetest

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Conns is a connection with both ends detached.
func Conns(t testing.TB) (a, b session.ControlConn) { return connsBy(t, sockets.Detach) }

// AttachedConns is a connection with both ends in the runtime's poller.
func AttachedConns(t testing.TB) (a, b session.ControlConn) { return connsBy(t, sockets.Attach) }

// connsBy is a connection whose ends were taken over by take.
func connsBy(t testing.TB, take func(*net.TCPConn) (*sockets.Conn, error)) (a, b session.ControlConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	end := func(c net.Conn) session.ControlConn {
		conn, err := take(c.(*net.TCPConn))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return session.ControlConn{Conn: conn, Deadline: time.Now().Add(time.Minute)}
	}
	return end(near), end(far)
}

// Allocations is how often f allocates, by itself and in what runs at the same time.
// It is testing.AllocsPerRun without its restriction to one CPU, on
// which two threads that block in system calls would wait for each other's.
func Allocations(runs int, f func()) int {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int(after.Mallocs-before.Mallocs) / runs
}

// StampAll has the kernel stamp packets until the test ends, where it can. A
// worker of the kernel's begins to, which took 0.8 s on a host that compiled:
// longer than some tests, and nearly as long as a test of a path waits for it.
func StampAll(t testing.TB) {
	t.Helper()
	near, far := Conns(t)
	if err := near.EnableReceiveStamps(); errors.Is(err, sockets.ErrUnsupported) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, at, err := near.ReadStamped(b, false); err != nil && !errors.Is(err, sockets.ErrTick) {
			t.Fatal(err)
		} else if !at.IsZero() {
			return
		}
	}
	t.Fatal("the kernel stamped no packet in a minute")
}
