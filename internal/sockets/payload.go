package sockets

import "math/rand/v2"

// PayloadBytes is the size of the buffer that bulk senders send over and
// over: large enough to make system calls rare, small enough to stay in the
// cache next to the receiver's.
const PayloadBytes = 256 << 10

// Payload is what bulk senders send. All flows of a test may share one.
type Payload struct{ buf []byte }

// NewPayload fills a Payload with bytes that no link compresses. They are the
// same in every run.
func NewPayload() *Payload {
	p := &Payload{buf: make([]byte, PayloadBytes)}
	source := rand.NewChaCha8([32]byte{'h', 'o', 'p', 'b', 'e', 'n', 'c', 'h'})
	_, _ = source.Read(p.buf) // documented never to fail
	return p
}

// Method names how SendPayload sends, for the record.
func (p *Payload) Method() string { return "send from one buffer" }

// SendPayload sends up to n bytes of payload, as Write does.
func (c *Conn) SendPayload(p *Payload, n int) (int, error) {
	return c.Write(p.buf[:min(n, len(p.buf))])
}
