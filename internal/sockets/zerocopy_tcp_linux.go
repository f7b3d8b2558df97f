package sockets

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// sourcePipes is how many pipes hold the payload, from which those of flows are
	// filled: the CPUs take turns at a page's reference count.
	sourcePipes = 32
	// pipeSlots is how many pieces of memory a pipe refers to, as it is made
	// (PIPE_DEF_BUFFERS in the kernel), and what splice(2) hands to a socket at once.
	pipeSlots = 16
	// mostFills is how often that goes into the pipe of a flow that is alone, then of
	// the largest size that everyone may have (fs.pipe-max-size): it was a seventh
	// faster than with one. 8 flows and more were as fast with one.
	mostFills = 16
	// pipePiece is the largest that the kernel makes of memory for a socket, a
	// compound page (PAGE_ALLOC_COSTLY_ORDER); where it is short of those, it takes
	// smaller ones.
	pipePiece = 32 << 10
)

// payloadPipes hold a payload that the kernel refers to instead of copying it.
//
// sendfile(2) does so as well, but it looks up each page of 4 KB in its file, puts
// it in a pipe and takes it out again, 64 KB a turn. What was once written to a
// socket lies in larger pieces that are bound to no file: splice(2) moves them to a
// pipe, where they stay, tee(2) copies the references to another, and splice hands
// half a megabyte of them to a connection at once. Across one hop on 2 CPUs
// one flow was 1.45 times as fast as by sendfile, and 8 and 64 flows 1.5 times.
type payloadPipes struct {
	mu      sync.Mutex
	sources [sourcePipes]pipeSource   // made as flows need them
	shared  [sourcePipes]*payloadPipe // likewise, of flows that have none of their own
}

// pipeSource is a pipe that stays full.
type pipeSource struct {
	fd    int // the end that is read; 0 is none: it is standard input
	bytes int // in it
	slots int // that refer to them
}

// NewPipedPayload is NewPayload for splice(2) from pipes: the kernel queues references
// to what is in them and copies nothing. Each connection says by TakePipe or SharePipe
// from which it sends.
func NewPipedPayload() (*Payload, error) {
	pp := new(payloadPipes)
	_, err := pp.source(0)
	if err != nil {
		return nil, err
	}
	return &Payload{pipes: pp}, nil
}

// source is where flow number flow has its payload from.
func (pp *payloadPipes) source(flow int) (*pipeSource, error) {
	s := &pp.sources[flow%sourcePipes]
	if s.fd > 0 {
		return s, nil
	}
	made, err := newPipeSource()
	if err != nil {
		return nil, fmt.Errorf("put the payload in a pipe: %w", err)
	}
	*s = made
	return s, nil
}

func newPipeSource() (s pipeSource, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return s, fmt.Errorf("pipe2: %w", err)
	}
	// A pipe takes no more at once than small pages would fill: with 16 slots and
	// the last 8 of them free, pieces would be cut.
	_, err = setSlots(ends[1], 2*pipeSlots)
	if err == nil {
		s.bytes, err = fill(ends[1], noise(pipeSlots*pipePiece))
	}
	if err == nil {
		s.slots, err = setSlots(ends[1], pipeSlots)
	}
	if err = errors.Join(err, unix.Close(ends[1])); err != nil {
		return s, errors.Join(err, unix.Close(ends[0]))
	}
	s.fd = ends[0]
	return s, nil
}

// errFewSlots is that of a pipe through which copying would be faster.
var errFewSlots = errors.New("this user has too many pipes, or too large ones, for another of 16 pages (fs.pipe-user-pages-soft)")

// setSlots changes how many references a pipe holds if this user may have one as
// large and it holds no more, and says how many it is: no less than pipeSlots.
func setSlots(pipe, slots int) (int, error) {
	page := os.Getpagesize()
	bytes, err := unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, slots*page)
	if err != nil {
		bytes, err = unix.FcntlInt(uintptr(pipe), unix.F_GETPIPE_SZ, 0)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("F_GETPIPE_SZ: %w", err)
	case bytes < pipeSlots*page:
		return 0, errFewSlots
	}
	return bytes / page, nil
}

// fill passes content through a socket into a pipe, until that is full.
func fill(pipe int, content []byte) (bytes int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socketpair: %w", err)
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }() // nobody needs what is left in them
	for bytes < len(content) {
		n, err := unix.SendmsgN(fds[0], content[bytes:min(bytes+pipePiece, len(content))], nil, nil, unix.MSG_DONTWAIT)
		if err != nil {
			return 0, fmt.Errorf("send: %w", err)
		}
		for n > 0 {
			moved, err := unix.Splice(fds[1], nil, pipe, nil, n, unix.SPLICE_F_NONBLOCK)
			if errors.Is(err, unix.EAGAIN) && bytes > 0 {
				return bytes, nil
			}
			if err != nil || moved == 0 {
				return 0, fmt.Errorf("splice: %w", cmp.Or(err, io.ErrUnexpectedEOF))
			}
			n -= int(moved)
			bytes += int(moved)
		}
	}
	return bytes, nil
}

// pageBytes is the least of any source in use.
func (pp *payloadPipes) pageBytes() int {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	least := 0
	for _, s := range pp.sources {
		if s.fd > 0 && (least == 0 || s.bytes/s.slots < least) {
			least = s.bytes / s.slots
		}
	}
	return least
}

func (pp *payloadPipes) close() error {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	var errs []error
	for i, s := range pp.sources {
		if s.fd > 0 {
			errs = append(errs, unix.Close(s.fd))
			pp.sources[i] = pipeSource{}
		}
	}
	for i, p := range pp.shared {
		if p != nil {
			errs = append(errs, p.close())
			pp.shared[i] = nil
		}
	}
	return errors.Join(errs...)
}

// payloadPipe is what one call at a time sends from.
type payloadPipe struct {
	mu     sync.Mutex // held during the calls of those who share it
	shared bool
	source int
	ends   [2]int // that is read, that is written
	fills  int    // how often the source goes into it
	left   int    // bytes in it
}

// pipe makes one for flow number flow that the source fills so many times, or fewer
// if it may not be as large.
func (pp *payloadPipes) pipe(flow, fills int) (*payloadPipe, error) {
	source, err := pp.source(flow)
	if err != nil {
		return nil, err
	}
	p := &payloadPipe{source: source.fd}
	if err := unix.Pipe2(p.ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("put the payload in a pipe: pipe2: %w", err)
	}
	slots, err := setSlots(p.ends[1], fills*source.slots)
	if err != nil {
		return nil, fmt.Errorf("put the payload in a pipe: %w", errors.Join(err, p.close()))
	}
	p.fills = max(slots/source.slots, 1)
	return p, nil
}

// sharedPipe is the one that flow number flow has in common with others.
func (pp *payloadPipes) sharedPipe(flow int) (*payloadPipe, error) {
	p := &pp.shared[flow%sourcePipes]
	if *p != nil {
		return *p, nil
	}
	made, err := pp.pipe(flow, 1)
	if err != nil {
		return nil, err
	}
	made.shared = true
	*p = made
	return made, nil
}

// refill has something in the pipe.
func (p *payloadPipe) refill() syscall.Errno {
	if p.left > 0 {
		return 0
	}
	for range p.fills {
		n, _, errno := syscall.RawSyscall6(unix.SYS_TEE, uintptr(p.source), uintptr(p.ends[1]), pipeSlots*pipePiece, unix.SPLICE_F_NONBLOCK, 0, 0)
		if errno != 0 && p.left == 0 {
			return errno
		}
		if errno != 0 {
			break // it is full
		}
		p.left += int(n)
	}
	return 0
}

func (p *payloadPipe) close() error {
	return errors.Join(unix.Close(p.ends[0]), unix.Close(p.ends[1]))
}

// SharePipe has SendPayload send p from a pipe that others of the Conns that never
// leave the poller share with this one, number flow.
func (c *Conn) SharePipe(p *Payload, flow int) (err error) {
	p.pipes.mu.Lock()
	defer p.pipes.mu.Unlock()
	c.pipe, err = p.pipes.sharedPipe(flow)
	return err
}

// TakePipe has SendPayload send p from a pipe of this Conn alone, number flow of a
// test of so many flows.
func (c *Conn) TakePipe(p *Payload, flow, flows int) (err error) {
	p.pipes.mu.Lock()
	defer p.pipes.mu.Unlock()
	c.pipe, err = p.pipes.pipe(flow, max(mostFills/flows, 1))
	return err
}

// attemptPayload is an attempt at sending from a pipe, for the poller.
func (c *Conn) attemptPayload(fd uintptr) {
	p := c.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.call.errno = p.refill(); c.call.errno != 0 {
		return
	}
	c.call.n = min(c.call.n, p.left)
	if c.call.raw(fd); c.call.errno == 0 {
		p.left -= int(c.call.got)
	}
}

// sendPiped sends up to n bytes from the pipe.
func (c *Conn) sendPiped(n int) (int, error) {
	c.call = call{trap: unix.SYS_SPLICE, pipe: c.pipe.ends[0], n: n}
	if c.attached != nil {
		c.call.n = min(n, turn)
		return c.complete() // which refills it
	}
	if errno := c.pipe.refill(); errno != 0 {
		return 0, fmt.Errorf("tee the payload: %w", errno)
	}
	if n > c.pipe.left {
		c.call.n, c.call.flags = c.pipe.left, unix.SPLICE_F_MORE
	}
	sent, err := c.complete()
	c.pipe.left -= sent
	return sent, err
}
