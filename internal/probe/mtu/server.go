package mtu

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// server is a server's end of all mtu tests.
type server struct {
	accept func(*session.ControlConn, *session.Flow, *protocol.Ready) (*sockets.Conn, error)
}

// Serve is the server's end of an mtu test: it answers probes, never with
// more than came, until the client ends the test.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	conn, err := s.accept(w, open, ready)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := conn.SetFragmentMode(sockets.ProbeMTU); err != nil {
		return &protocol.RemoteError{Reason: string(session.Unsupported), Message: err.Error()}
	}
	conn.SetReceiveBuffer(0)
	if err := errors.Join(conn.QueuePathErrors(true), conn.SetReadTick(readTick)); err != nil {
		return err
	}
	if _, err := w.ReadStart(planned(open.Test.Spec) + grace(open.Test.Spec)); err != nil {
		return err
	}
	var answered atomic.Int64 // bytes
	defer open.Test.Meter.Add(true, answered.Load)()
	packet := make([]byte, datagram.MaxBytes+1)
	for !w.Readable() {
		if err := w.Over(); err != nil {
			return err
		}
		n, err := conn.Read(packet)
		if err != nil {
			continue // a tick, or the answer of a router to an earlier packet
		}
		if size := probeAnswer(packet[:n], ready.Cookie); size > 0 {
			// Should it be too large for the reverse direction, that is the answer.
			n, _ := conn.Write(packet[:size])
			answered.Add(int64(max(n, 0)))
		}
	}
	if err := protocol.Expect(w, protocol.TypeReceived, protocol.Empty, nil); err != nil {
		return err
	}
	var report protocol.Report
	for _, e := range conn.PathErrors() {
		fact := fmt.Sprintf("in the reverse direction, the router %s said that its next link carries %d bytes", e.From, e.MTU)
		if e.Own {
			fact = fmt.Sprintf("in the reverse direction, the destination's own interface carries %d bytes", e.MTU)
		}
		report.Facts = session.AppendNew(report.Facts, fact)
	}
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return session.AwaitClose(w)
}

// probeAnswer is how many bytes answer a packet of an mtu test, 0 for none.
func probeAnswer(packet, cookie []byte) int {
	if len(packet) < datagram.HeaderBytes || len(packet) > datagram.MaxBytes || !bytes.Equal(packet[:protocol.CookieBytes], cookie) {
		return 0
	}
	switch packet[datagram.KindOffset] {
	case datagram.Probe:
		return datagram.HeaderBytes
	case datagram.Mirror:
		return len(packet)
	}
	return 0
}
