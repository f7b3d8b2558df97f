package message

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// maxDescriptors is how many descriptors a message may carry.
const maxDescriptors = 4

// Conn is one end of a socket that carries messages.
type Conn struct {
	*net.UnixConn
	mu sync.Mutex // orders senders
}

// Open turns a file into a connection and closes the file.
func Open(f *os.File) (*Conn, error) {
	defer f.Close()
	any, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use descriptor as a connection: %w", err)
	}
	unixConn, ok := any.(*net.UnixConn)
	if !ok {
		any.Close()
		return nil, fmt.Errorf("descriptor is a %s socket, not a unix socket", any.LocalAddr().Network())
	}
	return &Conn{UnixConn: unixConn}, nil
}

// Send writes a message with files; it does not close them.
func (c *Conn) Send(verb Verb, id uint64, body any, files ...*os.File) error {
	return c.SendResult(verb, id, body, nil, files...)
}

// Answer writes the reply to the request of an ID: a body, or what failed.
func (c *Conn) Answer(id uint64, body any, failed error) error {
	return c.SendResult(Reply, id, body, failed)
}

// SendResult is Send of a message that also says what failed, nil for nothing.
func (c *Conn) SendResult(verb Verb, id uint64, body any, failed error, files ...*os.File) error {
	m, err := New(verb, id, body)
	if err != nil {
		return err
	}
	if failed != nil {
		m.Error = failed.Error()
	}
	return c.send(m, files)
}

// Forward writes a message as it is.
func (c *Conn) Forward(m Message) error { return c.send(m, nil) }

func (c *Conn) send(m Message, files []*os.File) error {
	frame, err := encodeFrame(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A peer that does not read for this long is stopped or broken; waiting
	// for it would hold up everyone else who sends.
	if err := c.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	n, _, err := c.WriteMsgUnix(frame, rightsOf(files), nil)
	if err != nil {
		return err
	}
	if n < len(frame) {
		_, err = c.Write(frame[n:])
	}
	return err
}

// Receive reads the next message. Descriptors beyond what it may carry are
// closed and refused.
func (c *Conn) Receive() (Message, []*os.File, error) {
	var header [4]byte
	oob := make([]byte, rightsBytes)
	n, oobn, flags, _, err := c.ReadMsgUnix(header[:], oob)
	files, rightsErr := filesOf(oob[:oobn], flags)
	fail := func(err error) (Message, []*os.File, error) {
		CloseAll(files)
		return Message{}, nil, err
	}
	switch {
	case err != nil:
		return fail(err)
	case n == 0:
		return fail(io.EOF)
	case rightsErr != nil:
		return fail(rightsErr)
	}
	if n < len(header) {
		if _, err := io.ReadFull(c.UnixConn, header[n:]); err != nil {
			return fail(err)
		}
	}
	length, err := frameLength(header)
	if err != nil {
		return fail(err)
	}
	m, err := decodeBody(c.UnixConn, length)
	if err != nil {
		return fail(err)
	}
	return m, files, nil
}

// CloseAll closes files.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
