package sockets

import (
	"math/rand/v2"
	"os"
)

// PayloadBytes is the size of the buffer that bulk senders send over and
// over: large enough to make system calls rare, small enough to stay in the
// cache next to the receiver's.
const PayloadBytes = 256 << 10

// Payload is what bulk senders send. All flows of a test may share one.
type Payload struct {
	buf []byte
	// file holds the payload instead of buf when it is sent by sendfile(2).
	file *os.File
	fd   int
	// page is the size in bytes of the pages of memory that hold the file.
	page int
}

// NewPayload fills a Payload with bytes that no link compresses. They are the
// same in every run.
func NewPayload() *Payload { return &Payload{buf: noise(PayloadBytes)} }

func noise(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{'h', 'o', 'p', 'b', 'e', 'n', 'c', 'h'})
	_, _ = source.Read(b) // documented never to fail
	return b
}

// How bytes were handed to the kernel, for the record.
const (
	SentFromFile   = "sendfile from memory"
	SentFromBuffer = "send from one buffer"
)

// Method names how SendPayload sends.
func (p *Payload) Method() string {
	if p.file != nil {
		return SentFromFile
	}
	return SentFromBuffer
}

// PageBytes is the size of the pages to which sendfile(2) refers, 0 without it.
func (p *Payload) PageBytes() int { return p.page }

// Close gives back what the payload holds of the system. Nobody may be sending it.
func (p *Payload) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
