package probe_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// failing is a listener that fails now and then, as accept(2) may.
type failing struct {
	net.Listener
	errs  []error
	calls atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	if n := int(f.calls.Add(1)); n <= len(f.errs) {
		return nil, &net.OpError{Op: "accept", Err: f.errs[n-1]}
	}
	return f.Listener.Accept()
}

// What befalls one connection, or what the system lacks for a moment, does not end
// the server (accept(2), "Error handling"); a broken listener does.
func TestErrorsOfAccept(t *testing.T) {
	passing := []error{
		syscall.ENOMEM, syscall.ENOBUFS, syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN, syscall.ECONNABORTED,
		syscall.EHOSTUNREACH, syscall.EMFILE, syscall.ENFILE, syscall.EOPNOTSUPP,
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	f := &failing{Listener: ln, errs: passing}
	done := make(chan error, 1)
	go func() { done <- probe.Accept(s, f) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	p := &badPeer{c, "0123456789abcdef0123456789abcdef"}
	if _, err := p.open(tinyRR, 0); err != nil {
		t.Errorf("after %d errors: %v", len(passing), err)
	}
	if got := s.Stats().Refused["accept"]; got != uint64(len(passing)) {
		t.Errorf("%d errors are counted of %d", got, len(passing))
	}
	_ = c.Close()
	_ = ln.Close()
	if err := <-done; err != nil {
		t.Errorf("a listener that was closed: %v", err)
	}
	s.Wait()

	broken := &failing{Listener: ln, errs: []error{syscall.EBADF}}
	if err := probe.Accept(s, broken); err == nil {
		t.Error("a broken listener is accepted from for ever")
	}
	if err := s.Serve(context.Background(), ln); err == nil {
		t.Error("a closed listener is served")
	}
}

// Where the system has no UDP, tests over TCP are served, and those over UDP refused with the
// reason and a way out, iperf3's as well.
func TestServerWithoutUDP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	l := s.WithoutUDP(ln, syscall.EPROTONOSUPPORT)
	ctx, stop := context.WithCancel(servertest.Context(t))
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	target := ln.Addr().(*net.TCPAddr).AddrPort()
	mustServe(t, target, "without UDP")
	tool := measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3, Duration: 1}.Defaults()
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, Duration: 0.1}, {Kind: measurement.PPS, Duration: 0.1}, {Kind: measurement.MTU},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.1}, tool,
	} {
		_, err := probe.Run(ctx, probe.Request{Spec: spec.Defaults(), Target: target}, nil)
		if err == nil || !strings.Contains(err.Error(), "no UDP") {
			t.Errorf("%s with %s: %v", spec.Kind, spec.Tool, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
