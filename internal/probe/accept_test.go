package probe

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

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
	s, err := NewServer(ServerOptions{})
	testutil.OK(t, err)
	f := &failing{Listener: ln, errs: passing}
	done := make(chan error, 1)
	go func() { done <- s.accept(f) }()
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
	s.wg.Wait()

	broken := &failing{Listener: ln, errs: []error{syscall.EBADF}}
	if err := s.accept(broken); err == nil {
		t.Error("a broken listener is accepted from for ever")
	}
	if err := s.Serve(context.Background(), ln); err == nil {
		t.Error("a closed listener is served")
	}
}
