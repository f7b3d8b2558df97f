package iperf3

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/sockets"
)

// discardBytes is how much one call drops at most.
const discardBytes = 256 << 10

// sendBytes is how much one call is asked to send where no rate holds it back.
const sendBytes = 1 << 20

// longestPause is how long a paced sender sleeps before it looks whether it
// should stop.
const longestPause = 50 * time.Millisecond

// mostArrears is what a sender catches up with at a server that bounds the rate: with all
// that a path held up, its own sending would be too fast for that bound.
const mostArrears = 100 * time.Millisecond

// At a server that bounds the rate, a sender over TCP sends pieces of pieceTime, and of
// leastPiece bytes at least: the blocks of many streams, or large ones, are faster than the
// bound for seconds.
const (
	pieceTime  = 10 * time.Millisecond
	leastPiece = 1 << 10
)

// drainTime is how long a receiver of datagrams still counts those that arrived
// before the end of the test and wait in its buffer.
const drainTime = 100 * time.Millisecond

// transfer is what all streams of one end of a test share.
type transfer struct {
	udp     bool
	wide    bool // 64-bit packet numbers
	block   int  // bytes of a block or datagram
	burst   int  // blocks between two looks at the rate
	rate    float64
	bounded bool // the rate of the test is
	omit    time.Duration
	payload *sockets.Payload
	// budget, when positive, is how many bytes of whole blocks the senders
	// together may send.
	budget  int64
	claimed atomic.Int64

	start time.Time
	// clock is what the clock showed at the start that datagrams are dated by.
	clock time.Duration
	// until, when positive, is when receivers stop counting, since the start.
	until   time.Duration
	stopped atomic.Bool
	workers sync.WaitGroup
	// failed gets the first failure of a stream.
	failed chan error
}

// stream is one data connection.
type stream struct {
	*transfer
	conn   *sockets.Conn
	sender bool
	index  int

	halt  atomic.Bool  // a sender shall stop
	bytes atomic.Int64 // all that was moved
	last  atomic.Int64 // when the latest of it was, in nanoseconds since the start
	// target is how many bytes will come in all, once that is known; reached
	// is closed when they have.
	target  atomic.Int64
	reached chan struct{}
	once    sync.Once

	// The rest belongs to the worker while it runs.
	passed     bool // the omitted time is over
	forgiven   time.Duration
	omitted    int64
	packets    int64 // sent
	omitPacket int64
	arrivals   arrivals
	// bins, where wanted, are what was received in adjacent times of width.
	bins  []int64
	width time.Duration
	// retransmits at the end of the omitted time.
	omitRetransmits int64
}

func newStream(t *transfer, conn *sockets.Conn, index int, sender bool) *stream {
	return &stream{transfer: t, conn: conn, index: index, sender: sender, reached: make(chan struct{}), arrivals: arrivals{first: true}, passed: t.omit == 0}
}

// launch starts the stream's worker on a thread of its own.
func (s *stream) launch() {
	s.workers.Go(func() {
		defer sockets.Lock()()
		err := admission.Contain(func() error {
			switch {
			case s.sender && s.udp:
				return s.sendPackets()
			case s.sender:
				return s.send()
			case s.udp:
				return s.receivePackets()
			}
			return s.receive()
		})
		if err != nil && !s.stopped.Load() {
			s.fail(err)
		}
	})
}

// fail tells of the first failure of a stream.
func (t *transfer) fail(err error) {
	select {
	case t.failed <- err:
	default:
	}
}

// count adds n bytes that were moved at a time since the start.
func (s *stream) count(n int, at time.Duration) {
	if !s.passed && at >= s.omit {
		s.passOmit()
	}
	total := s.bytes.Add(int64(n))
	s.last.Store(int64(at))
	if s.bins != nil {
		if bin := int(at / s.width); bin < len(s.bins) {
			s.bins[bin] += int64(n)
		}
	}
	if target := s.target.Load(); target > 0 && total >= target {
		s.once.Do(func() { close(s.reached) })
	}
}

// counts says whether what arrives at a time is part of the test.
func (s *stream) counts(at time.Duration) bool { return s.until == 0 || at < s.until }

// ending says that a sender shall stop.
func (s *stream) ending() bool { return s.halt.Load() || s.stopped.Load() }

func (s *stream) passOmit() {
	s.passed = true
	s.omitted, s.omitPacket = s.bytes.Load(), s.packets
	s.arrivals.omit()
}

// await says how many bytes will come in all and returns what is closed when
// they have.
func (s *stream) await(total int64) <-chan struct{} {
	s.target.Store(max(total, 1))
	if s.bytes.Load() >= total {
		s.once.Do(func() { close(s.reached) })
	}
	return s.reached
}

func (s *stream) receive() error {
	buf := make([]byte, discardBytes)
	for {
		n, err := s.conn.Discard(buf)
		at := time.Since(s.start)
		if s.stopped.Load() {
			return nil
		}
		if n > 0 && s.counts(at) {
			s.count(n, at)
		}
		if err != nil && !errors.Is(err, sockets.ErrTick) {
			return err
		}
	}
}

// receivePackets looks only at the header of each datagram; the rest is
// discarded in the kernel where that is possible.
func (s *stream) receivePackets() error {
	size := headerBytes
	if !s.conn.DiscardsInKernel() {
		size = maxDatagram
	}
	buf := make([]byte, size)
	var until time.Duration
	for {
		n, err := s.conn.Discard(buf)
		at := time.Since(s.start)
		if s.stopped.Load() {
			if until == 0 {
				until = at + drainTime
			}
			if n == 0 || err != nil || at > until {
				return nil
			}
		}
		switch {
		case err == nil:
			h, ok := parseHeader(buf[:min(n, len(buf))], s.wide)
			if !ok || !s.counts(at) {
				continue
			}
			s.count(n, at)
			s.arrivals.arrive(h, at)
		case errors.Is(err, sockets.ErrTick), errors.Is(err, io.EOF):
			// EOF is a datagram without bytes.
		case errors.Is(err, os.ErrClosed):
			return err
		default:
			// An ICMP error of this end's own packet; those that come are unaffected.
		}
	}
}

// ahead sleeps when more was sent than the rate allows so far, and says so.
// The rate holds on average from the start, as with iperf3, but for what a server that
// bounds it forgives.
func (s *stream) ahead() bool {
	if s.rate <= 0 {
		return false
	}
	wait := s.dueAfter(time.Since(s.start))
	if wait <= 0 {
		return false
	}
	pause(min(wait, longestPause))
	return true
}

// dueAfter is how long after now the next block is due.
func (s *stream) dueAfter(now time.Duration) time.Duration {
	wait := time.Duration(float64(s.bytes.Load())*8/s.rate*1e9) + s.forgiven - now
	if s.bounded && wait < -mostArrears {
		s.forgiven += -mostArrears - wait
		wait = -mostArrears
	}
	return wait
}

// claim takes the next block of the senders' budget.
func (s *stream) claim() bool {
	return s.budget <= 0 || s.claimed.Add(int64(s.block)) < s.budget+int64(s.block)
}

func (s *stream) send() error {
	if s.rate <= 0 && s.budget <= 0 {
		for !s.ending() {
			if err := s.sendSome(sendBytes); err != nil {
				return err
			}
		}
		return nil
	}
	for !s.ending() {
		if s.ahead() {
			continue
		}
		for range max(s.burst, 1) {
			if !s.claim() {
				return nil
			}
			if err := s.sendSome(s.block); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendSome sends n bytes, unless the test ends before.
func (s *stream) sendSome(n int) error {
	for left := n; left > 0 && !s.ending(); {
		if s.bounded && left < n && s.ahead() {
			continue
		}
		sent, err := s.conn.SendPayload(s.payload, s.piece(left), int(s.bytes.Load()))
		if err != nil && !errors.Is(err, sockets.ErrTick) {
			return err
		}
		left -= sent
		s.count(sent, time.Since(s.start))
	}
	return nil
}

// piece is how much to send at once of what is left of a block.
func (s *stream) piece(left int) int {
	if !s.bounded {
		return left
	}
	return min(left, max(int(s.rate/8*pieceTime.Seconds()), leastPiece))
}

func (s *stream) sendPackets() error {
	packet := make([]byte, s.block)
	_, _ = rand.NewChaCha8([32]byte{'i', 'p', 'e', 'r', 'f'}).Read(packet) // documented never to fail
	for !s.ending() {
		if s.ahead() {
			continue
		}
		for range max(s.burst, 1) {
			at := time.Since(s.start)
			putHeader(packet, s.clock+at, uint64(s.packets+1), s.wide)
			n, err := s.conn.Write(packet)
			switch {
			case err == nil:
				// The count first: what is omitted was sent before.
				s.count(n, at)
				s.packets++
			case errors.Is(err, sockets.ErrTick):
			case passing(err):
				pause(time.Millisecond)
			default:
				return err
			}
			if s.ending() {
				break
			}
		}
	}
	return nil
}

// end stops the streams and waits for their workers.
func (t *transfer) end(streams []*stream) {
	t.stopped.Store(true)
	for _, s := range streams {
		s.conn.Interrupt()
	}
	t.workers.Wait()
}

// result is this end's view of a stream, with its clock stopped at end.
func (s *stream) result(end time.Duration, retransmits int64) streamResult {
	if !s.passed && end >= s.omit {
		s.passOmit() // nothing was moved after the omitted time
	}
	r := streamResult{ID: float64(streamID(s.index)), Bytes: float64(s.bytes.Load() - s.omitted), Retransmits: -1}
	zero, seconds := 0.0, max((end-s.omit).Seconds(), 0)
	if !s.passed {
		r.Bytes, seconds = 0, 0
	}
	omittedPackets, omittedLost := float64(s.omitPacket), 0.0
	switch {
	case s.udp && s.sender:
		r.Packets = float64(s.packets)
	case s.udp:
		r.Packets, r.Lost, r.Jitter = float64(s.arrivals.highest), float64(s.arrivals.lost), s.arrivals.jitter
		omittedPackets, omittedLost = float64(s.arrivals.omitHighest), float64(s.arrivals.omitLost)
	case s.sender:
		r.Retransmits = float64(max(retransmits-s.omitRetransmits, 0))
	}
	r.OmittedPackets, r.OmittedLost, r.Start, r.End = &omittedPackets, &omittedLost, &zero, &seconds
	return r
}

// retransmits of a sending socket so far; it is 0 where the system cannot say.
func (s *stream) retransmits() int64 {
	if s.udp || !s.sender {
		return 0
	}
	info, err := s.conn.TCPInfo(0)
	if err != nil {
		return 0
	}
	return info.Retransmits
}

// usage is the CPU time of this process from a moment on.
type usage struct {
	at           time.Time
	user, system time.Duration
}

func startUsage() usage {
	user, system := cpuTime()
	return usage{time.Now(), user, system}
}

// percent of one CPU: user and system.
func (u usage) percent() (user, system float64) {
	took := time.Since(u.at)
	if took <= 0 {
		return 0, 0
	}
	nowUser, nowSystem := cpuTime()
	return 100 * float64(nowUser-u.user) / float64(took), 100 * float64(nowSystem-u.system) / float64(took)
}
