package datagram

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// StampBytes is the length of a request for a stamp and of its answer, which has the
// server's time, in nanoseconds, behind the header.
const StampBytes = HeaderBytes + 8

// PutStamp writes the server's time to the answer to a request for it.
func PutStamp(b []byte, at time.Duration) { binary.BigEndian.PutUint64(b[HeaderBytes:], uint64(at)) }

// parseStamp reads an answer in the test that has this cookie, and says whether it is one.
func parseStamp(b, cookie []byte) (number uint32, at time.Duration, ok bool) {
	if len(b) != StampBytes || b[KindOffset] != Stamp || !bytes.Equal(b[:protocol.CookieBytes], cookie) {
		return 0, 0, false
	}
	at = time.Duration(binary.BigEndian.Uint64(b[HeaderBytes:]))
	return binary.BigEndian.Uint32(b[SequenceOffset:]), at, at >= 0 && at <= protocol.MaxStamp
}

const (
	// stampsInRow are asked for before a test and after it, rowEvery apart, and one
	// every sparse meanwhile: 1 kbit/s.
	stampsInRow = 16
	rowEvery    = 2 * time.Millisecond
	sparse      = time.Second
	// rowWait is how long the answers to a row are waited for at most; once there are
	// some, they tell how long another can take, but for lateAnswer.
	rowWait    = 500 * time.Millisecond
	lateAnswer = 10 * time.Millisecond
)

// Stamps are exchanged with the server during a test, where the two ends have no clock in
// common, over a UDP socket of their own: at the server, one thread answers all that comes
// to its port, so that the threads that transfer are not kept waiting, and keep no stamp
// waiting. What the path does to a stamp makes it say less, and never something wrong.
type Stamps struct {
	cookie   []byte
	done     sync.WaitGroup
	stop     context.CancelFunc
	begun    chan struct{} // closed when the first row has been answered, or cannot be
	stopping atomic.Bool
	conn     atomic.Pointer[net.UDPConn] // nil before it is open

	sent      []time.Time // by number; zero where it was answered
	longest   time.Duration
	exchanges []exchange
}

// exchange is a clock.Exchange whose own stamps are moments.
type exchange struct {
	sent, heard time.Time
	at          time.Duration
}

// StartStamps asks in the background until Result, End or the end of ctx. It does nothing
// where the ends have one clock, or the server answers no stamps.
func StartStamps(ctx context.Context, req session.Request, ready protocol.Ready) *Stamps {
	ctx, stop := context.WithCancel(ctx)
	s := &Stamps{cookie: ready.Cookie, stop: stop, begun: make(chan struct{})}
	if !NeedStamps(ready) {
		close(s.begun)
		return s
	}
	s.done.Go(func() {
		begun := sync.OnceFunc(func() { close(s.begun) })
		defer begun()
		// What goes wrong leaves fewer exchanges, or none, which is an answer; none of it
		// concerns the test itself.
		conn, err := dialPolled(ctx, req, ready)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		s.conn.Store(conn)
		_ = s.run(conn, begun)
	})
	return s
}

// NeedStamps says that the server which sent ready answers stamps, by another clock than
// this end's.
func NeedStamps(ready protocol.Ready) bool {
	return ready.ClockID != "" && ready.ClockID != hostinfo.ClockID()
}

// Begun waits until the first stamps were answered, or cannot be.
func (s *Stamps) Begun() { <-s.begun }

// Result asks for the last stamps and says what all of them were, own times since start.
func (s *Stamps) Result(start time.Time) []clock.Exchange {
	s.stopping.Store(true)
	if conn := s.conn.Load(); conn != nil {
		_ = conn.SetReadDeadline(time.Now()) // wakes it; should it fail, the next stamp does
	}
	s.done.Wait()
	var all []clock.Exchange
	for _, x := range s.exchanges {
		all = append(all, clock.Exchange{Sent: x.sent.Sub(start), Heard: x.heard.Sub(start), At: x.at})
	}
	return all
}

// End gives up and waits for what was begun.
func (s *Stamps) End() {
	s.stop()
	s.done.Wait()
}

// run asks for stamps until it is to stop, and for the last ones then.
func (s *Stamps) run(conn *net.UDPConn, begun func()) error {
	if err := s.row(conn); err != nil || len(s.exchanges) == 0 {
		return err
	}
	begun()
	for !s.stopping.Load() {
		if err := s.ask(conn); err != nil {
			return err
		}
		if err := s.listen(conn, time.Now().Add(sparse), s.stopping.Load); err != nil {
			return err
		}
	}
	return s.row(conn)
}

// row asks for several stamps, and waits for them.
func (s *Stamps) row(conn *net.UDPConn) error {
	had := len(s.exchanges)
	asked := time.Now()
	for range stampsInRow {
		asked = time.Now()
		if err := s.ask(conn); err != nil {
			return err
		}
		if err := s.listen(conn, asked.Add(rowEvery), never); err != nil {
			return err
		}
	}
	for got := 0; got < stampsInRow; got = len(s.exchanges) - had {
		waited := time.Since(asked)
		if waited > rowWait || got > 0 && waited > 2*s.longest+lateAnswer {
			break
		}
		if err := s.listen(conn, time.Now().Add(rowEvery), never); err != nil {
			return err
		}
	}
	return nil
}

func never() bool { return false }

// ask sends one request.
func (s *Stamps) ask(conn *net.UDPConn) error {
	packet := make([]byte, StampBytes)
	PutHeader(packet, s.cookie, Stamp)
	binary.BigEndian.PutUint32(packet[SequenceOffset:], uint32(len(s.sent)))
	s.sent = append(s.sent, time.Now())
	if _, err := conn.Write(packet); errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("ask for a stamp: %w", err)
	}
	return nil // it is lost; an ICMP error concerns an earlier one
}

// listen takes answers until a time, or until it is to stop.
func (s *Stamps) listen(conn *net.UDPConn, until time.Time, stop func() bool) error {
	in := make([]byte, StampBytes+1)
	for {
		// The deadline is set before it is looked whether to stop: who has it stop sets
		// the deadline after.
		if err := conn.SetReadDeadline(until); err != nil {
			return err
		}
		if stop() || !time.Now().Before(until) {
			return nil
		}
		n, err := conn.Read(in)
		heard := time.Now()
		switch {
		case err == nil:
			s.take(in[:n], heard)
		case errors.Is(err, net.ErrClosed):
			return err
		}
	}
}

// take keeps what an answer says.
func (s *Stamps) take(b []byte, heard time.Time) {
	number, at, ok := parseStamp(b, s.cookie)
	if !ok || uint64(number) >= uint64(len(s.sent)) || s.sent[number].IsZero() {
		return // a stray packet, or a copy
	}
	s.exchanges = append(s.exchanges, exchange{s.sent[number], heard, at})
	for i := len(s.exchanges) - 1; i > 0 && s.exchanges[i-1].sent.After(s.exchanges[i].sent); i-- { // in which they were sent
		s.exchanges[i-1], s.exchanges[i] = s.exchanges[i], s.exchanges[i-1]
	}
	s.longest = max(s.longest, heard.Sub(s.sent[number]))
	s.sent[number] = time.Time{}
}
