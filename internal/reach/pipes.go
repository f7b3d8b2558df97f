package reach

import (
	"errors"
	"io"
	"net"
	"os"
)

// pipes are two pipes as one connection.
type pipes struct {
	from io.Reader // reads in, perhaps through a buffer
	in   *os.File
	out  *os.File
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
