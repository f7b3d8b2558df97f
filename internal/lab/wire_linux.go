package lab

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

// wire is one end of a socket that carries messages.
type wire struct {
	conn *net.UnixConn
	mu   sync.Mutex // orders senders
}

// socketPair makes a connected pair of stream sockets, as files.
func socketPair(name string) (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of unix sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// connOf turns a file into a connection and closes the file.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use descriptor as a connection: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor is a %s socket, not a unix socket", c.LocalAddr().Network())
	}
	return u, nil
}

// send writes m with files; it does not close them.
func (w *wire) send(m message, files ...*os.File) error {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	// A peer that does not read for this long is stopped or broken; waiting
	// for it would hold up everyone else who sends.
	if err := w.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	n, _, err := w.conn.WriteMsgUnix(frame, oob, nil)
	if err != nil {
		return err
	}
	if n < len(frame) {
		_, err = w.conn.Write(frame[n:])
	}
	return err
}

// receive reads the next message. Descriptors beyond what it may carry are
// closed and refused.
func (w *wire) receive() (message, []*os.File, error) {
	var header [4]byte
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, oobn, flags, _, err := w.conn.ReadMsgUnix(header[:], oob)
	files, rightsErr := filesOf(oob[:oobn])
	fail := func(err error) (message, []*os.File, error) {
		closeAll(files)
		return message{}, nil, err
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
		if _, err := io.ReadFull(w.conn, header[n:]); err != nil {
			return fail(err)
		}
	}
	length, err := frameLength(header)
	if err != nil {
		return fail(err)
	}
	m, err := decodeBody(w.conn, length)
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
			closeAll(files)
			return nil, fmt.Errorf("read descriptors of a message: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
