//go:build !linux

package sockets

type payloadPipes struct{}

func (*payloadPipes) pageBytes() int { return 0 }
func (*payloadPipes) close() error   { return nil }

// NewPipedPayload is not supported here.
func NewPipedPayload() (*Payload, error) { return nil, ErrUnsupported }

// SendPayload sends up to n bytes of payload, as Write does.
func (c *Conn) SendPayload(p *Payload, n int) (int, error) {
	return c.Write(p.buf[:min(n, len(p.buf))])
}

// TakePipe does nothing here: no payload is piped.
func (c *Conn) TakePipe(*Payload, int, int) error { return nil }

// SharePipe does nothing here: no payload is piped.
func (c *Conn) SharePipe(*Payload, int) error { return nil }
