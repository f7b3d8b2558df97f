package reach

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// pipes are two pipes as one connection.
type pipes struct {
	from io.Reader // reads in, perhaps through a buffer
	in   *os.File
	out  *os.File
	name string
}

// Read reports a closed pipe as a closed connection.
func (p *pipes) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	return n, asClosed(err)
}

// Write is like Read.
func (p *pipes) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	return n, asClosed(err)
}

func asClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

// Close closes both pipes.
func (p *pipes) Close() error {
	return asClosed(errors.Join(p.out.Close(), p.in.Close()))
}

// LocalAddr and RemoteAddr name the other end.
func (p *pipes) LocalAddr() net.Addr  { return pipeName(p.name) }
func (p *pipes) RemoteAddr() net.Addr { return pipeName(p.name) }

// SetDeadline and those of each direction fail where a pipe knows none.
func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetReadDeadline(t), p.out.SetWriteDeadline(t))
}
func (p *pipes) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *pipes) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// pipeName is who is at the other end.
type pipeName string

// Network implements net.Addr.
func (pipeName) Network() string  { return "pipe" }
func (n pipeName) String() string { return string(n) }
