package rr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// server is a server's end of all rr tests.
type server struct {
	// spin lets a test have this end poll.
	spin bool
	// zeros are the payload of every response; nobody writes to them.
	zeros []byte
}

// requests are those of one test.
type requests struct {
	// first gets the address from which the first one over UDP came.
	first chan netip.AddrPort
	// answered counts them, from whichever socket they were answered.
	answered atomic.Int64
}

// Begin counts the requests of a test, and keeps where those over UDP come from. Some may be
// answered before its connection is served.
func (s *server) Begin(t *session.Test) (end func() error) {
	r := &requests{first: make(chan netip.AddrPort, 1)}
	t.State = r
	size := func(bytes int) func() int64 { return func() int64 { return r.answered.Load() * int64(bytes) } }
	came, went := t.Meter.Add(false, size(t.Spec.RequestBytes)), t.Meter.Add(true, size(t.Spec.ResponseBytes))
	return func() error {
		came()
		went()
		return nil
	}
}

// AnswerBytes also tells the test over UDP from where its requests come.
func (s *server) AnswerBytes(t *session.Test, packet []byte, from netip.AddrPort) int {
	if packet[datagram.KindOffset] != datagram.Request || t.Spec.Protocol != measurement.OverUDP {
		return 0
	}
	r := t.State.(*requests)
	select {
	case r.first <- from:
	default: // told already
	}
	r.answered.Add(1)
	return max(t.Spec.ResponseBytes, datagram.HeaderBytes)
}

// Serve is the server's end of an rr test.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	spec := open.Test.Spec
	if err := w.NoDelay(); err != nil {
		return err
	}
	end := &responder{spec: spec, ready: ready, requests: open.Test.State.(*requests), zeros: s.zeros, cpus: open.CPUs}
	if spec.Spin && !s.spin {
		end.spec.Spin = false
		end.facts = append(end.facts, "the destination blocked instead of spinning: its server lets nobody have whole CPUs (serve --spin does)")
	}
	start, err := w.AwaitStart(ready, session.Planned(spec)+Grace(spec))
	if err != nil {
		return err
	}
	host := open.SampleHost(start)
	defer host.End()
	// Another goroutine transfers; this one waits for the end.
	if spec.Protocol == measurement.OverUDP {
		err = end.serveUDP(w)
	} else {
		err = end.serveTCP(w)
	}
	if err != nil {
		return err
	}
	report := protocol.Report{Answered: end.requests.answered.Load(), Host: host.Result(), Facts: end.facts,
		Effective: map[string]string{"destination_wait": session.WaitMethod(end.spin)}}
	maps.Copy(report.Effective, end.inForce)
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// responder is an rr test in progress at the server.
type responder struct {
	spec     measurement.Spec
	ready    *protocol.Ready
	requests *requests
	zeros    []byte
	cpus     []int // that its thread keeps to; nil for all
	spin     bool
	inForce  map[string]string // of the options of its socket
	facts    []string
}

// run runs f as session.OnThread does.
func (e *responder) run(f func(spin bool) error) error {
	fact, err := session.OnThread(e.spec.Spin, "destination", e.cpus, func(spin bool) error {
		e.spin = spin
		return f(spin)
	})
	if fact != "" {
		e.facts = append(e.facts, fact)
	}
	return err
}

func (e *responder) serveTCP(w *session.ControlConn) error {
	e.inForce = session.InForce(w.Conn, e.spec, true)
	return e.run(func(spin bool) error { return e.answer(w, spin) })
}

// requestPiece is how much of a request is read at a time, in bytes.
const requestPiece = 64 << 10

// answer responds to every request up to the last one. Of a request it looks at the
// first byte.
func (e *responder) answer(w *session.ControlConn, spin bool) error {
	read, write := w.Read, w.Write
	if spin {
		read, write = w.SpinRead, w.SpinWrite
	}
	size, response := e.spec.RequestBytes, e.zeros[:e.spec.ResponseBytes]
	piece := make([]byte, min(size, requestPiece))
	var turn thread.Turn
	for {
		var first byte
		for done := 0; done < size; {
			got, err := read(piece[:min(size-done, len(piece))])
			if err != nil {
				return err
			}
			if done == 0 {
				first = piece[0]
			}
			done += got
		}
		if _, err := write(response); err != nil {
			return err
		}
		n := e.requests.answered.Add(1)
		turn.Take()
		if first != moreRequests {
			return nil
		}
		if err := w.Guard.Halted(); err != nil {
			return err
		}
		// A client that never pauses is bounded too; the clock is read rarely.
		if n%1024 == 0 {
			if err := w.Over(); err != nil {
				return err
			}
		}
	}
}

// serveUDP waits for the end of the test on the TCP connection. The first
// request arrives at Server.serveUDP; the others are answered by a thread of this
// test on a socket connected to the client, as soon as there is one: plain
// recv and send cost less than the listening socket's recvmsg and sendmsg, and
// no other test's packets come between.
func (e *responder) serveUDP(w *session.ControlConn) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		select {
		case peer := <-e.requests.first:
			if err := admission.Contain(func() error { return e.answerPeer(ctx, peer) }); ctx.Err() == nil {
				failed = err
			}
		case <-ctx.Done():
		}
	})
	err := protocol.Expect(w, protocol.TypeReceived, protocol.Empty, nil)
	cancel()
	wg.Wait()
	if failed != nil {
		e.facts = append(e.facts, fmt.Sprintf("the destination answered from its shared UDP socket, which is slower: %v", failed))
	}
	return err
}

// answerPeer answers the requests of peer until ctx ends.
func (e *responder) answerPeer(ctx context.Context, peer netip.AddrPort) error {
	conn, err := datagram.Connect(ctx, e.spec, e.ready, peer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	e.inForce = session.InForce(conn, e.spec, true)
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true); conn.Interrupt() })()
	return e.run(func(spin bool) error {
		e.answerPackets(conn, spin, &stop)
		return nil
	})
}

// maxBadReads bounds errors in a row: each ICMP error is one, and does not end
// the test.
const maxBadReads = 1000

// answerPackets answers the test's requests on conn until stop.
func (e *responder) answerPackets(conn *sockets.Conn, spin bool, stop *atomic.Bool) {
	in := make([]byte, datagram.MaxBytes)
	out := make([]byte, max(e.spec.ResponseBytes, datagram.HeaderBytes))
	read, write := conn.Read, conn.Write
	if spin {
		read, write = conn.TryRead, conn.TryWrite
	}
	var p session.Patience
	var turn thread.Turn
	for bad := 0; bad < maxBadReads && !stop.Load(); {
		n, err := read(in)
		switch {
		case err == sockets.ErrTick: //nolint:errorlint // read's very value, in a hot loop
			if spin {
				p.Yield()
			}
			continue
		case err != nil:
			bad++
			continue
		}
		bad = 0
		if n < datagram.HeaderBytes || in[datagram.KindOffset] != datagram.Request || !bytes.Equal(in[:protocol.CookieBytes], e.ready.Cookie) {
			continue // it came before the socket was connected
		}
		copy(out[:datagram.HeaderBytes], in[:datagram.HeaderBytes])
		if _, err := write(out); err == nil {
			e.requests.answered.Add(1)
		}
		turn.Take()
	}
}

// discardTime is how long a server discards requests that its client has sent before it
// knew that the test is over.
const discardTime = 500 * time.Millisecond

// discardRequests lets the client of an rr test read why that ended: closing with requests
// unread would reset the connection under it.
func discardRequests(w *session.ControlConn) {
	if w.CloseWrite() != nil {
		return
	}
	in := make([]byte, 64<<10)
	for end := time.Now().Add(discardTime); time.Now().Before(end); {
		if _, err := w.Conn.Read(in); err != nil && !errors.Is(err, sockets.ErrTick) {
			return
		}
	}
}
