package sockets

import "math/rand/v2"

// payloadBytes is the size of the buffer that bulk senders send over and over.
const payloadBytes = 256 << 10

// OverBytes is the size of a buffer for ReadOver: of what one call fills over and over, and a
// page, somewhere in which it begins.
const OverBytes = chunkBytes + pageBytes

const (
	chunkBytes = 64 << 10
	pageBytes  = 4 << 10
)

// Payload is what bulk senders send. All flows of a test may share one.
type Payload struct {
	buf []byte
	// pipes, unless nil, hold the payload instead of buf.
	pipes *payloadPipes
}

// NewPayload fills a Payload with bytes that no link compresses. They are the
// same in every run.
func NewPayload() *Payload { return &Payload{buf: noise(payloadBytes)} }

func noise(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{'h', 'o', 'p', 'b', 'e', 'n', 'c', 'h'})
	_, _ = source.Read(b) // documented never to fail
	return b
}

// Spliced says whether SendPayload refers to the payload instead of copying it.
func (p *Payload) Spliced() bool { return p.pipes != nil }

// PageBytes is how many bytes of memory are behind each reference where the kernel
// refers to the payload, in the mean, and 0 where it copies.
func (p *Payload) PageBytes() int {
	if p.pipes == nil {
		return 0
	}
	return p.pipes.pageBytes()
}

// Close gives back what the payload holds of the system. Nobody may be sending it.
func (p *Payload) Close() error {
	if p.pipes == nil {
		return nil
	}
	return p.pipes.close()
}
