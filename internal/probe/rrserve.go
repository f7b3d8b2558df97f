package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// serveRR is the server's end of an rr test.
func (s *Server) serveRR(w *wire, open *opened, ready *protocol.Ready) error {
	spec := open.Spec
	if err := w.NoDelay(); err != nil {
		return err
	}
	end := &rrEnd{spec: spec, ready: ready, peer: open.session.peer, zeros: s.zeros, cpus: open.cpus}
	if spec.Spin && !s.opts.Spin {
		end.spec.Spin = false
		end.facts = append(end.facts, "the destination blocked instead of spinning: its server lets nobody have whole processors (serve --spin does)")
	}
	start, err := awaitStart(w, ready)
	if err != nil {
		return err
	}
	w.until(start.Add(planned(spec) + grace))
	host := s.startHost(open, start)
	defer host.end()
	size := func(bytes int) func() int64 { return func() int64 { return end.answered.Load() * int64(bytes) } }
	defer open.session.meter.add(false, size(spec.RequestBytes))()
	defer open.session.meter.add(true, size(spec.ResponseBytes))()
	// Another goroutine transfers; this one waits for the end.
	if spec.Protocol == measurement.OverUDP {
		err = end.serveUDP(w)
	} else {
		err = end.serveTCP(w)
	}
	if err != nil {
		return err
	}
	report := protocol.Report{Answered: end.answered.Load(), Host: host.result(), Facts: end.facts,
		Effective: map[string]string{"destination_wait": waiting(end.spin)}}
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// rrEnd is an rr test in progress at the server.
type rrEnd struct {
	spec     measurement.Spec
	ready    *protocol.Ready
	peer     <-chan netip.AddrPort // who sent the first request over UDP
	zeros    []byte
	cpus     []int // that its thread keeps to; nil for all
	answered atomic.Int64
	spin     bool
	facts    []string
}

// run runs f as onThread does.
func (e *rrEnd) run(f func(spin bool) error) error {
	fact, err := onThread(e.spec.Spin, "destination", e.cpus, func(spin bool) error {
		e.spin = spin
		return f(spin)
	})
	if fact != "" {
		e.facts = append(e.facts, fact)
	}
	return err
}

func (e *rrEnd) serveTCP(w *wire) error {
	return e.run(func(spin bool) error { return e.answer(w, spin) })
}

// requestPiece is how much of a request is read at a time, in bytes.
const requestPiece = 64 << 10

// answer responds to every request up to the last one. Of a request it looks at the
// first byte.
func (e *rrEnd) answer(w *wire, spin bool) error {
	read, write := w.Read, w.Write
	if spin {
		read, write = w.spinRead, w.spinWrite
	}
	size, response := e.spec.RequestBytes, e.zeros[:e.spec.ResponseBytes]
	piece := make([]byte, min(size, requestPiece))
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
		n := e.answered.Add(1)
		if first != moreRequests {
			return nil
		}
		// A client that never pauses is bounded too; the clock is read rarely.
		if n%1024 == 0 {
			if err := w.over(); err != nil {
				return err
			}
		}
	}
}

// serveUDP waits for the end of the test on the TCP connection. The first
// request meets Server.serveUDP; the others are answered by a thread of this
// test on a socket connected to the client, as soon as there is one: plain
// recv and send cost less than the listening socket's recvmsg and sendmsg, and
// no other test's packets come between.
func (e *rrEnd) serveUDP(w *wire) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		select {
		case peer := <-e.peer:
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
func (e *rrEnd) answerPeer(ctx context.Context, peer netip.AddrPort) error {
	local, err := netip.ParseAddrPort(e.ready.Server)
	if err != nil {
		return fmt.Errorf("own address: %w", err)
	}
	udp, err := sockets.ConnectUDP(ctx, local, peer)
	if err != nil {
		return err
	}
	conn, err := sockets.DetachUDP(udp)
	if err != nil {
		return errors.Join(err, ignoreClosed(udp.Close()))
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := marked(conn, e.spec); err != nil {
		return err
	}
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
func (e *rrEnd) answerPackets(conn *sockets.Conn, spin bool, stop *atomic.Bool) {
	in := make([]byte, maxDatagram)
	out := make([]byte, max(e.spec.ResponseBytes, datagramBytes))
	read, write := conn.Read, conn.Write
	if spin {
		read, write = conn.TryRead, conn.TryWrite
	}
	var p patience
	for bad := 0; bad < maxBadReads && !stop.Load(); {
		n, err := read(in)
		switch {
		case err == sockets.ErrTick: //nolint:errorlint // read's very value, in a hot loop
			if spin {
				p.yield()
			}
			continue
		case err != nil:
			bad++
			continue
		}
		bad = 0
		if n < datagramBytes || in[datagramKind] != datagramRequest || !bytes.Equal(in[:protocol.CookieBytes], e.ready.Cookie) {
			continue // it came before the socket was connected
		}
		copy(out[:datagramBytes], in[:datagramBytes])
		if _, err := write(out); err == nil {
			e.answered.Add(1)
		}
	}
}

// tellPeer tells the rr test over UDP that packet belongs to, if any, from where
// its requests come. The caller has checked that it may be answered.
func (s *Server) tellPeer(packet []byte, from netip.AddrPort) {
	if packet[datagramKind] != datagramRequest {
		return
	}
	if t := s.sessionOf(packet[:protocol.CookieBytes], from.Addr()); t != nil {
		select {
		case t.peer <- from:
		default: // told already
		}
	}
}
