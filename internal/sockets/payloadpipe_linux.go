package sockets

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

const (
	// pipedBytes is how much of a payload a pipe holds, and one tee(2) takes.
	pipedBytes = 1 << 20
	// pipedPiece is how much passes at once through the socket that fills it.
	pipedPiece = 32 << 10
)

// payloadPipe sends a payload as sendfile(2) does, by reference. But sendfile looks
// up each page in the file, one by one also of a huge page, puts it in a pipe and
// takes it out again. This pipe is filled once; tee(2) makes a copy of it, and
// splice(2) empties that into the connection. To fill it, a socket helps: taken
// from a socket, a page is not bound to its file any more, and is not looked up
// again. One flow was a tenth faster.
type payloadPipe struct {
	full, work [2]int // the ends that are read and written; 0 is none: it is standard input
	left       int    // bytes in work
}

func newPayloadPipe(p *Payload) (_ *payloadPipe, err error) {
	pp := new(payloadPipe)
	defer func() {
		if err != nil {
			err = fmt.Errorf("put the payload in a pipe: %w", errors.Join(err, pp.Close()))
		}
	}()
	for _, ends := range []*[2]int{&pp.full, &pp.work} {
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("pipe: %w", err)
		}
		// The largest that is allowed to everyone (fs.pipe-max-size).
		if _, err = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, pipedBytes); err != nil {
			return nil, fmt.Errorf("F_SETPIPE_SZ: %w", err)
		}
	}
	return pp, pp.fill(p)
}

func (pp *payloadPipe) fill(p *Payload) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }() // nothing is left in them
	offset := int64(0)
	for offset < pipedBytes {
		n, err := unix.Sendfile(fds[0], p.fd, &offset, pipedPiece)
		if err != nil || n == 0 {
			return fmt.Errorf("sendfile: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
		for n > 0 {
			moved, err := unix.Splice(fds[1], nil, pp.full[1], nil, n, unix.SPLICE_F_NONBLOCK)
			if err != nil || moved == 0 {
				return fmt.Errorf("splice: %w", cmp.Or(err, io.ErrUnexpectedEOF))
			}
			n -= int(moved)
		}
	}
	return nil
}

// refill has something in work.
func (pp *payloadPipe) refill() error {
	if pp.left > 0 {
		return nil
	}
	n, err := unix.Tee(pp.full[0], pp.work[1], pipedBytes, unix.SPLICE_F_NONBLOCK)
	if err != nil {
		return fmt.Errorf("tee: %w", err)
	}
	pp.left = int(n)
	return nil
}

// Close gives the pipes back.
func (pp *payloadPipe) Close() error {
	var errs []error
	for _, fd := range []int{pp.full[0], pp.full[1], pp.work[0], pp.work[1]} {
		if fd > 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
