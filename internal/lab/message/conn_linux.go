package message

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxDescriptors is how many descriptors a message may carry.
const maxDescriptors = 4

// Conn is one end of a socket that carries messages.
type Conn struct {
	*net.UnixConn
	mu sync.Mutex // orders senders
}

// SocketPair makes a connected pair of stream sockets, as files.
func SocketPair(name string) (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of unix sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
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
	m, err := New(verb, id, body)
	if err != nil {
		return err
	}
	return c.send(m, files)
}

// Answer writes the reply to the request of an ID: a body, or what failed.
func (c *Conn) Answer(id uint64, body any, failed error) error {
	return c.SendResult(Reply, id, body, failed)
}

// SendResult writes a message that also says what failed, nil for nothing.
func (c *Conn) SendResult(verb Verb, id uint64, body any, failed error) error {
	m, err := New(verb, id, body)
	if err != nil {
		return err
	}
	if failed != nil {
		m.Error = failed.Error()
	}
	return c.send(m, nil)
}

// Forward writes a message as it is.
func (c *Conn) Forward(m Message) error { return c.send(m, nil) }

func (c *Conn) send(m Message, files []*os.File) error {
	frame, err := encodeFrame(m)
	if err != nil {
		return err
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A peer that does not read for this long is stopped or broken; waiting
	// for it would hold up everyone else who sends.
	if err := c.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	n, _, err := c.WriteMsgUnix(frame, oob, nil)
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
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, oobn, flags, _, err := c.ReadMsgUnix(header[:], oob)
	files, rightsErr := filesOf(oob[:oobn])
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
	case flags&syscall.MSG_CTRUNC != 0:
		return fail(fmt.Errorf("message carries more than %d descriptors", maxDescriptors))
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

func filesOf(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptors of a message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			CloseAll(files)
			return nil, fmt.Errorf("read descriptors of a message: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseAll closes files.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
