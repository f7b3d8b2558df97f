package rr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// The first byte of a request over TCP says whether another follows; after the
// answer to the last one, frames go on.
const (
	moreRequests = 0
	lastRequest  = 1
)

// exchanger does one request and its response. It returns errLost when the
// response did not come in time and the test may go on.
type exchanger interface {
	exchange(last bool) error
	// stamp has the kernel stamp responses from now on, if it can.
	stamp() bool
	// received is when the kernel received the last response, zero if unknown.
	received() time.Time
}

var errLost = errors.New("no response in time")

// endpoint is what both exchangers read and write with.
type endpoint struct {
	session.ControlConn
	spin    bool
	stamped bool
	at      time.Time
}

func (e *endpoint) stamp() bool {
	e.stamped = e.EnableReceiveStamps() == nil
	return e.stamped
}

func (e *endpoint) received() time.Time { return e.at }

// send writes all of b.
func (e *endpoint) send(b []byte) error {
	if e.spin {
		_, err := e.SpinWrite(b)
		return err
	}
	_, err := e.Write(b)
	return err
}

// tcpExchange is the closed loop's step over TCP.
type tcpExchange struct {
	endpoint
	request, response []byte
}

func (x *tcpExchange) exchange(last bool) error {
	if last {
		x.request[0] = lastRequest
	}
	if err := x.send(x.request); err != nil {
		return err
	}
	for done := 0; done < len(x.response); {
		n, err := x.read(x.response[done:])
		if err != nil {
			return err
		}
		if done == 0 && x.response[0] == endOfTest {
			return saidAtEnd(x.response[:n], &x.ControlConn)
		}
		done += n
	}
	return nil
}

// endOfTest is the first byte of what a server says in place of a response when it ends the
// test. That of a response is zero.
const endOfTest = byte(protocol.TypeError)

// saidAtEnd is why the server ends the test; got came of what it says, and w reads the rest.
func saidAtEnd(got []byte, w *session.ControlConn) error {
	return protocol.Expect(io.MultiReader(bytes.NewReader(got), w), protocol.TypeReport, protocol.MaxControl, nil)
}

func (x *tcpExchange) read(b []byte) (int, error) {
	switch {
	case x.stamped:
		return x.readStamped(b)
	case x.spin:
		return x.SpinRead(b)
	}
	return x.Read(b)
}

func (x *tcpExchange) readStamped(b []byte) (n int, err error) {
	var p session.Patience
	for {
		n, x.at, err = x.ReadStamped(b, x.spin)
		switch {
		case !errors.Is(err, sockets.ErrTick):
			return n, err
		case x.spin && p.Spent(x.Deadline), !x.spin && x.Late():
			return 0, session.ErrSilent
		}
	}
}

// udpExchange is the closed loop's step over UDP.
type udpExchange struct {
	endpoint
	request, response []byte
	sequence          uint32
	timeout           time.Duration
	late              *late
	rejected          rejections
}

// late counts responses that came after their timeout, to requests that count.
type late struct {
	tardy int64
	// givenUp are the last requests that were lost, 0 where the answer came later.
	givenUp [256]uint32
	// closed says that requests that are sent from now on do not count.
	closed bool
}

func (l *late) giveUp(sequence uint32) {
	if !l.closed {
		l.givenUp[sequence%uint32(len(l.givenUp))] = sequence
	}
}

// came counts an answer to an earlier request; one to a request that was not given up is a copy.
func (l *late) came(sequence uint32) {
	if at := &l.givenUp[sequence%uint32(len(l.givenUp))]; sequence > 0 && *at == sequence {
		*at = 0
		l.tardy++
	}
}

// rejections are what hosts or routers answered to requests over UDP (ICMP). Where none is
// answered otherwise they end the test, since a firewall rejects all; else each is the loss of
// one request.
type rejections struct {
	n        int
	answered bool // a request was
}

// mostRejections are borne before a request is answered.
const mostRejections = 3

// bears says that an error is one with which the test goes on.
func (r *rejections) bears(err error) bool {
	if !sockets.Rejected(err) {
		return false
	}
	r.n++
	return r.answered || r.n < mostRejections
}

func (x *udpExchange) exchange(last bool) error {
	if last {
		return nil // a frame says over TCP that the test is over
	}
	x.sequence++
	binary.BigEndian.PutUint32(x.request[datagram.SequenceOffset:], x.sequence)
	x.Deadline = time.Now().Add(x.timeout)
	err := x.send(x.request)
	if outgrown(err) || x.rejected.bears(err) {
		err = x.send(x.request)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errLost // it never left
	case err != nil:
		return err
	}
	var p session.Patience
	for {
		n, err := x.read()
		switch {
		case errors.Is(err, sockets.ErrTick):
			if x.spin && !p.Spent(x.Deadline) {
				continue
			}
		case outgrown(err), !x.rejected.answered && x.rejected.bears(err):
			return errLost
		case x.rejected.bears(err): // perhaps of an earlier request
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case n >= datagram.HeaderBytes:
			answered := binary.BigEndian.Uint32(x.response[datagram.SequenceOffset:])
			if answered == x.sequence {
				x.rejected.answered = true
				if x.Late() { // which a tick had not shown yet
					x.late.giveUp(answered)
					x.late.came(answered)
					return errLost
				}
				return nil
			}
			x.late.came(answered)
		}
		// A tick, or a late or foreign packet: wait for ours, but not for ever.
		if x.Late() {
			x.late.giveUp(x.sequence)
			return errLost
		}
	}
}

// outgrown says that a router did not carry an earlier request, which was larger than its
// next link (ICMP). The kernel knows now, and cuts those that follow.
func outgrown(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }

func (x *udpExchange) read() (n int, err error) {
	switch {
	case x.stamped:
		n, x.at, err = x.ReadStamped(x.response, x.spin)
		return n, err
	case x.spin:
		return x.TryRead(x.response)
	}
	return x.Conn.Read(x.response)
}

// loop measures for a fixed time that is discarded and a fixed time that
// counts. Everything it needs exists before it runs; it neither allocates nor
// logs. Its closed loop, one request in flight, is here; pipeline is the other.
type loop struct {
	exchanger
	recorder       *latency.Recorder
	warmup, length time.Duration
	// stop ends the loop early, as if its time were over.
	stop atomic.Bool
	// lastRTT is for progress; lost are requests that were sent and never answered.
	lastRTT  atomic.Int64
	lost     int64
	measured time.Duration
	// answered is when the last response came, since START.
	answered time.Duration
	// late are responses that came after their timeout: their requests are among the lost.
	late
	// wakeup and path divide the round trips of a short time after the measured
	// one; both are nil where the kernel gives no time stamps.
	wakeup, path *latency.Recorder
	// unstamped and impossible count round trips that were not divided: without a
	// stamp, and with one outside the round trip.
	unstamped, impossible int
}

func (l *loop) run(start time.Time) error {
	// Where the host is so busy that the loop begins late, it still measures one.
	counting, measured := l.warmup == 0, false
	began := time.Since(start)
	var turn thread.Turn
	for {
		turn.Take()
		sent := time.Since(start)
		if sent >= l.warmup+l.length && measured || l.stop.Load() {
			l.measured = sent - began
			break
		}
		err := l.exchange(false)
		back := time.Since(start)
		switch {
		case err != nil && err != errLost: //nolint:errorlint // the very value, in a hot loop
			return err
		case !counting && err != nil && back >= l.warmup+l.length:
			// No answer came in all of the measured time.
			counting, measured, began = true, true, l.warmup
			l.lose()
		case !counting:
			if err == nil {
				l.answered = back
			}
			if back >= l.warmup {
				counting, began = true, back
				l.late = late{} // what the warm-up lost is not counted either
			}
		case err != nil:
			measured = true
			l.lose()
		default:
			measured = true
			l.answered = back
			l.recorder.Record(back - sent)
			l.lastRTT.Store(int64(back - sent))
		}
	}
	if err := l.divide(); err != nil {
		return err
	}
	return unlessLost(l.exchange(true))
}

// lose counts a request that was sent and has no answer.
func (l *loop) lose() {
	l.lost++
	l.recorder.Lose(1)
}

// silentPart is the part of the measured time, at its end, without an answer from which on a path
// may be dead.
const silentPart = 0.1

// silence is for how long nothing was answered up to the end of a loop, 0 where that is less than
// silentPart of the measured time.
func (l *loop) silence() time.Duration {
	silent := l.warmup + l.measured - l.answered
	if float64(silent) < silentPart*float64(l.measured) {
		return 0
	}
	return silent
}

func unlessLost(err error) error {
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// stampTime bounds the time after the measured one in which round trips are
// divided; it is a tenth of that at most. The stamps cost the host time, which
// is why they are not asked for earlier.
const stampTime = 100 * time.Millisecond

// firstStamp bounds how long it may take until there are stamps: a worker of the
// kernel's turns them on for the host (net_enable_timestamp), which takes 1 to 4 ms
// as a rule and took 0.8 s on a host whose CPUs compiled.
const firstStamp = time.Second

// fewestDivided is how many round trips a median needs.
const fewestDivided = 20

// divide takes more round trips, with the time at which the kernel received
// each response, and divides them into what came before and what after that. Not where even
// the shortest is so long that a median would have too few: on a path of seconds they would
// take longer than the results are waited for.
func (l *loop) divide() error {
	during := min(l.length/10, stampTime)
	if l.recorder.Least() > during/fewestDivided || l.stop.Load() || !l.stamp() {
		return nil
	}
	l.wakeup, l.path, l.closed = latency.New(), latency.New(), true
	end := time.Now().Add(firstStamp)
	for stamped := false; ; {
		sent := time.Now()
		if !sent.Before(end) || l.stop.Load() {
			return nil
		}
		err := l.exchange(false)
		if err == errLost { //nolint:errorlint // the very value, in a hot loop
			continue
		}
		if err != nil {
			return err
		}
		back := time.Now()
		at := l.received()
		if at.IsZero() {
			l.unstamped++
			continue
		}
		if !stamped {
			stamped, end = true, back.Add(during)
		}
		// The stamp is of the clock that people set: what a step of it makes
		// impossible is left out.
		rtt, wakeup := back.Sub(sent), time.Duration(back.UnixNano()-at.UnixNano())
		if wakeup < 0 || wakeup > rtt {
			l.impossible++
			continue
		}
		l.wakeup.Record(wakeup)
		l.path.Record(rtt - wakeup)
	}
}
