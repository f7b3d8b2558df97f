package linkem

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/thread"
)

// Emulator joins two ports.
type Emulator struct {
	ports      [2]*Port
	directions [2]*direction
	inspector  Inspector // nil for none
	started    atomic.Bool

	mu      sync.Mutex // guards wake against use after it was closed
	wake    int        // an event counter that ends every poll
	ended   bool
	stopped atomic.Bool
}

// New makes a link emulator between two ports. Run takes them over: they are closed when
// it returns. If New fails, or Run is never called, they remain the caller's to
// close.
func New(a, b *Port, cfg Config) (*Emulator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make link emulator: %w", err)
	}
	if a == nil || b == nil || a == b {
		return nil, errors.New("make link emulator: two different ports are needed")
	}
	c := &Emulator{ports: [2]*Port{a, b}}
	for i, d := range []Direction{cfg.Forward, cfg.Backward} {
		c.directions[i] = &direction{config: d, seed: cfg.Seed, index: i, from: c.ports[i], to: c.ports[1-i], emulator: c}
	}
	return c, nil
}

// Counters may be called at any time.
func (c *Emulator) Counters() Counters {
	return Counters{Forward: c.directions[0].counters(), Backward: c.directions[1].counters()}
}

// Run carries frames until ctx ends, which is no error, or a port fails. It may
// be called once. When it returns, both ports are closed, and its threads,
// descriptors and memory are gone.
func (c *Emulator) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return errors.New("run link emulator: it ran before")
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("run link emulator: make event counter: %w", err)
	}
	c.wake = wake
	errs := []error{c.runWithPorts(ctx)}
	c.mu.Lock()
	c.ended = true
	errs = append(errs, unix.Close(wake))
	c.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("link emulator %s to %s: %w", c.ports[0].name, c.ports[1].name, err)
	}
	return nil
}

func (c *Emulator) runWithPorts(ctx context.Context) (err error) {
	for _, p := range c.ports {
		if err := p.acquire(c.stop); err != nil {
			return err
		}
		defer func() {
			wasClosed, closeErr := p.letGo()
			if wasClosed {
				closeErr = errors.Join(fmt.Errorf("port %s: %w", p.name, ErrPortClosed), closeErr)
			}
			err = errors.Join(err, closeErr)
		}()
	}
	for _, d := range c.directions {
		if err := d.prepare(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.finish()) }()
	}
	detach := context.AfterFunc(ctx, c.stop)
	defer detach()
	var threads sync.WaitGroup
	var results [2]error
	for i, d := range c.directions {
		threads.Go(func() {
			// Never unlocked: the thread ends with the function, and its
			// timer slack with it.
			runtime.LockOSThread()
			results[i] = d.run()
			c.stop()
		})
	}
	threads.Wait()
	return errors.Join(results[:]...)
}

// stop makes both directions return.
func (c *Emulator) stop() {
	c.stopped.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	one := uint64(1)
	// It can only fail with EAGAIN when the counter is full, and then the
	// polls end anyway.
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(c.wake), uintptr(unsafe.Pointer(&one)), 8)
}

// direction carries frames one way, in one thread.
//
// One thread both reads and releases: a second one would have to be woken for
// each frame, and would compete for CPUs with what is measured. What it
// costs is that a frame's arrival is noticed late by the time that the write
// of another takes, some tens of microseconds under full load.
type direction struct {
	config   Direction
	seed     uint64
	index    int
	from, to *Port
	emulator *Emulator
	tally    tally

	clock  clock
	line   *line
	shaper *shaper // the stage before the line, nil without a rate per flow
	slab   *slab
	buffer []byte // of the direct way
	polled [2]unix.PollFd
	spin   spin
	meter  meter
	thread atomic.Pointer[thread.Thread] // nil before it runs
}

func (d *direction) counters() DirectionCounters {
	counters := d.tally.read()
	counters.Thread = d.thread.Load().Wanted()
	counters.OverrunFrames = d.from.overruns()
	return counters
}

func (d *direction) prepare() error {
	d.clock = clock{time.Now()}
	d.meter = newMeter(d.seed, d.index)
	d.polled = [2]unix.PollFd{{Fd: int32(d.from.fd), Events: unix.POLLIN}, {Fd: int32(d.emulator.wake), Events: unix.POLLIN}}
	d.buffer = make([]byte, maxFrameBytes)
	if d.config.direct() {
		d.line = newLine(d.config, d.seed, d.index, 1)
		return nil
	}
	chunks := d.config.slabChunks()
	d.line = newLine(d.config, d.seed, d.index, chunks)
	if d.config.PerFlowRateBitsPerSecond > 0 {
		d.shaper = newShaper(d.config, chunks)
	}
	slab, err := newSlab(chunks)
	d.slab = slab
	return err
}

func (d *direction) finish() error {
	if d.slab == nil {
		return nil
	}
	return d.slab.close()
}

func (d *direction) run() error {
	// The default slack of 50 µs would be added to every delay.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	askForShortSlice()
	d.thread.Store(thread.Current())
	if d.config.direct() {
		return d.runDirect()
	}
	return d.runQueued()
}

// askForShortSlice makes the scheduler run the calling thread soon after it wakes up, in
// exchange for shorter turns. Unlike a real-time class or a better niceness it
// needs no privilege. Linux 6.12 and later heed it; earlier ones ignore the field. Where a
// filter of system calls (seccomp(2)) refuses it, frames pass as they do there.
func askForShortSlice() {
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil || attributes.Policy != unix.SCHED_NORMAL {
		return // somebody chose otherwise
	}
	attributes.Runtime = uint64(100 * time.Microsecond)
	_ = unix.SchedSetAttr(0, attributes, 0)
}

// runDirect carries frames that need not wait: read, write.
func (d *direction) runDirect() error {
	for !d.emulator.stopped.Load() {
		frame, errno := d.receive()
		if errno == unix.EAGAIN {
			if err := d.wait(-1); err != nil {
				return err
			}
			continue
		}
		if errno != 0 {
			return d.from.failed("read", errno)
		}
		d.tally.received.Add(1)
		var err error
		switch {
		case len(frame) < virtioHeaderBytes:
			d.tally.refused.Add(1)
		case d.inspects():
			err = d.inspectDirect(frame)
		default:
			err = d.passOn(frame)
		}
		if err != nil {
			return err
		}
		d.received()
	}
	return nil
}

func (d *direction) passOn(frame []byte) error {
	copies := d.line.copies()
	switch copies {
	case 0:
		d.tally.lost.Add(1)
	case 2:
		d.tally.duplicated.Add(1)
	}
	for range copies {
		began := d.meter.begin()
		errno := d.to.write(frame)
		d.tally.handOver.Add(d.meter.end(began))
		if errno != 0 {
			if err := d.notSent(errno); err != nil {
				return err
			}
			continue
		}
		d.sent(frame, len(frame))
	}
	return nil
}

// receive returns a frame, which is valid until received is called.
func (d *direction) receive() ([]byte, unix.Errno) {
	if r := d.from.ring; r != nil {
		frame, ok := r.peek()
		if !ok {
			return nil, unix.EAGAIN
		}
		return frame, 0
	}
	n, errno := d.from.read(d.buffer)
	if errno != 0 {
		return nil, errno
	}
	return d.buffer[:n], 0
}

func (d *direction) received() {
	if r := d.from.ring; r != nil {
		r.done()
	}
}

func (d *direction) sent(head []byte, length int) {
	d.tally.frames.Add(1)
	d.tally.bytes.Add(uint64(WireBytes(head, length)))
}

// notSent counts a frame that the far device did not take, or ends the link emulator.
func (d *direction) notSent(errno unix.Errno) error {
	if refusal(errno) {
		d.tally.refused.Add(1)
		return nil
	}
	return d.to.failed("write", errno)
}

func (p *Port) failed(what string, errno unix.Errno) error {
	if errno == unix.EBADFD || errno == unix.ENXIO || errno == unix.ENODEV {
		return fmt.Errorf("%s port %s: its device is gone: %w", what, p.name, errno)
	}
	return fmt.Errorf("%s port %s: %w", what, p.name, errno)
}

// readsPerRelease bounds how many frames are taken in before it is looked again
// for frames to release, so that neither side starves the other.
const readsPerRelease = 4

// runQueued carries frames that wait.
func (d *direction) runQueued() error {
	for !d.emulator.stopped.Load() {
		if err := d.releaseDue(); err != nil {
			return err
		}
		drained := false
		for range readsPerRelease {
			empty, err := d.takeIn()
			if err != nil {
				return err
			}
			if empty {
				drained = true
				break
			}
		}
		if !drained {
			continue
		}
		if err := d.waitForDue(); err != nil {
			return err
		}
	}
	return nil
}

// takeIn reads one frame and puts it on the line; empty tells that there is none.
func (d *direction) takeIn() (empty bool, err error) {
	n := 0
	if r := d.from.ring; r != nil {
		frame, ok := r.peek()
		if !ok {
			return true, nil
		}
		if n = len(frame); n <= maxFrameBytes {
			d.slab.fill(frame)
		} else {
			n = 0
		}
		r.done()
	} else {
		var errno unix.Errno
		switch n, errno = d.from.readVector(d.slab.input[:]); errno {
		case 0:
		case unix.EAGAIN:
			return true, nil
		default:
			return false, d.from.failed("read", errno)
		}
	}
	d.tally.received.Add(1)
	switch {
	case n < virtioHeaderBytes:
		d.tally.refused.Add(1)
	case d.inspects():
		return false, d.inspectQueued(n)
	default:
		d.admit(n)
	}
	return false, nil
}

// admit decides what becomes of the frame of n bytes that was just read.
func (d *direction) admit(n int) {
	now := d.clock.now()
	if d.config.InspectRateBitsPerSecond > 0 {
		d.line.pace(now, d.rate())
	}
	copies := d.line.copies()
	switch copies {
	case 0:
		d.tally.lost.Add(1)
		return
	case 2:
		d.tally.duplicated.Add(1)
	}
	if !d.slab.room(n) {
		d.tally.dropped.Add(uint64(copies))
		return
	}
	head := d.slab.head(n)
	wire := WireBytes(head, n)
	var flow flowKey
	if d.shaper != nil {
		flow = flowOf(head[virtioHeaderBytes:], d.seed)
	}
	frame := d.slab.take(n)
	for i := range copies {
		if i > 0 {
			d.slab.refs[frame]++
		}
		if !d.enter(now, flow, frame, wire) {
			left := uint64(copies - i) // a second copy finds the same full queue
			d.tally.dropped.Add(left)
			if d.shaper != nil {
				d.tally.flowDropped.Add(left)
			}
			d.slab.drop(frame)
			return
		}
	}
}

// enter puts one copy of a frame on its flow's wire, or at once on the line.
func (d *direction) enter(now int64, flow flowKey, frame uint32, wire int) bool {
	if d.shaper == nil {
		return d.offer(now, frame, wire)
	}
	if !d.shaper.offer(now, flow, frame, wire) {
		return false
	}
	if flow != 0 {
		d.tally.flowBusy.Add(uint64(float64(wire) / d.shaper.rate))
	}
	return true
}

// offer puts a copy of a frame on the line.
func (d *direction) offer(at int64, frame uint32, wire int) bool {
	if !d.line.offer(at, frame, wire) {
		return false
	}
	if d.line.rate > 0 {
		d.tally.busy.Add(uint64(float64(wire) / d.line.rate))
	}
	return true
}

// advance puts the frames on the line that their flows' wires have sent, each at
// the time when it was, however late that is noticed.
func (d *direction) advance(now int64) {
	for {
		f, ok := d.shaper.release(now)
		if !ok {
			return
		}
		if !d.offer(f.due, f.handle, int(f.wire)) {
			d.tally.dropped.Add(1)
			d.slab.drop(f.handle)
		}
	}
}

// releaseDue writes every frame whose time has come, up to a bound.
func (d *direction) releaseDue() error {
	if d.shaper != nil {
		d.advance(d.clock.now())
	}
	for range 2 * readsPerRelease {
		frame, reordered, ok := d.line.release(d.clock.now())
		if !ok {
			return nil
		}
		var errno unix.Errno
		head, n := d.slab.header(frame)
		began := d.meter.begin()
		if n <= chunkBytes {
			errno = d.to.write(head)
		} else {
			errno = d.to.writeVector(d.slab.vector(frame))
		}
		d.tally.handOver.Add(d.meter.end(began))
		if errno == 0 {
			d.sent(head, n)
			if reordered {
				d.tally.reordered.Add(1)
			}
		}
		d.slab.drop(frame)
		if errno != 0 {
			if err := d.notSent(errno); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForDue sleeps until a frame is due, or comes in. It returns at once for
// the caller to spin when that is cheap.
func (d *direction) waitForDue() error {
	due, ok := d.line.next()
	if d.shaper != nil {
		if at, waits := d.shaper.next(); waits && (!ok || at < due) {
			due, ok = at, true
		}
	}
	now := d.clock.now()
	if !ok {
		d.spin.stop(now)
		return d.wait(-1)
	}
	length := d.spin.sleep(now, due)
	if length <= 0 {
		return nil
	}
	err := d.wait(length)
	d.spin.woke(d.clock.now(), now+length)
	return err
}

// wait polls for a frame, the end, or the given time in nanoseconds; negative
// is for ever.
func (d *direction) wait(nanoseconds int64) error {
	var timeout *unix.Timespec
	var t unix.Timespec
	if nanoseconds >= 0 {
		t = unix.NsecToTimespec(nanoseconds)
		timeout = &t
	}
	// Syscall, not RawSyscall: the runtime must be able to use the processor
	// for other goroutines meanwhile.
	_, _, errno := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&d.polled)), uintptr(len(d.polled)),
		uintptr(unsafe.Pointer(timeout)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("wait for frames: %w", errno)
	}
	if errno == 0 && d.polled[0].Revents&^unix.POLLIN != 0 {
		return d.from.check()
	}
	return nil
}

// check finds out what an error event of poll means; nil if the port lives on.
func (p *Port) check() error {
	if p.kind == TAP {
		if p.checkKind() == nil {
			return nil
		}
		return p.failed("read", unix.EBADFD)
	}
	// Reading the error clears it. A device that is down may come up again,
	// one that was removed has left the socket unbound.
	if _, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		return fmt.Errorf("read port %s: %w", p.name, err)
	}
	address, err := unix.Getsockname(p.fd)
	if err != nil {
		return fmt.Errorf("read port %s: %w", p.name, err)
	}
	if bound, ok := address.(*unix.SockaddrLinklayer); ok && bound.Ifindex <= 0 {
		return p.failed("read", unix.ENODEV)
	}
	return nil
}
