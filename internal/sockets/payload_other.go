//go:build !linux

package sockets

// NewPayloadFile is not supported here.
func NewPayloadFile() (*Payload, error) { return nil, ErrUnsupported }

// SendPayload sends up to n bytes of payload, as Write does.
func (c *Conn) SendPayload(p *Payload, n int) (int, error) {
	return c.Write(p.buf[:min(n, len(p.buf))])
}

// PipePayload changes nothing here.
func (c *Conn) PipePayload(*Payload) error { return nil }
