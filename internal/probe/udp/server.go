package udp

import (
	"cmp"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// server is a server's end of all udp or pps tests.
type server struct {
	accept func(*session.ControlConn, *session.Flow, *protocol.Ready) (*sockets.Conn, error)
	clock  session.Clock
}

// Begin keeps what the flows of a test send without a copy.
func (s *server) Begin(t *session.Test) (end func() error) {
	pages := &packetPages{}
	t.State = pages
	return pages.close
}

// Serve is the server's end of one flow of a udp or pps test.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	spec := paced(open.Test.Spec, ready.MaxRateBitsPerSecond)
	conn, err := s.accept(w, open, ready)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if spec.Direction == measurement.Receive {
		return s.send(w, conn, open, spec)
	}
	r, err := newReceiver(*w, conn, spec, ready.Cookie)
	if err != nil {
		return err
	}
	if r.start, err = r.control.ReadStart(session.Planned(spec) + grace); err != nil {
		return err
	}
	host := open.SampleHost(r.start)
	defer host.End()
	defer open.Test.Meter.Add(false, r.arrived.Load)()
	sent, err := r.run()
	if err != nil {
		return err
	}
	received := r.received(sent, r.stepped())
	received.Clock.Stamped = int64(s.clock.Of(r.start))
	received.Host = host.Result()
	if err := protocol.WriteFrame(&r.control, protocol.TypeReceived, received); err != nil {
		return err
	}
	return session.AwaitClose(&r.control)
}

func (s *server) send(w *session.ControlConn, conn *sockets.Conn, open *session.Flow, spec measurement.Spec) error {
	cookie := open.Test.Cookie[:]
	learnMTU(conn, cookie, cmp.Or(spec.PacketBytes, datagram.MaxBytes))
	room := datagram.LargestPayload(conn)
	// The session lasts at least as long as this connection of it.
	sender, err := newSender(*w, conn, spec, cookie, open.Test.State.(*packetPages))
	if err != nil {
		return err
	}
	sender.clock = s.clock
	start, err := sender.control.ReadStart(session.Planned(spec) + grace)
	if err != nil {
		return err
	}
	if now := datagram.LargestPayload(conn); now < room && now < sender.size { // a router has said so meanwhile
		if sender, err = newSender(sender.control, conn, spec, cookie, open.Test.State.(*packetPages)); err != nil {
			return err
		}
		sender.clock = s.clock
	}
	sender.pace.stagger(open.Number, spec.Flows)
	sender.start = start
	host := open.SampleHost(sender.start)
	defer host.End()
	defer open.Test.Meter.Add(true, func() int64 { return sender.sent.Load() * int64(sender.size) })()
	if err := sender.run(); err != nil {
		return err
	}
	if _, err := sender.finish(host.Result); err != nil {
		return err
	}
	// The client closes when the last packets have come.
	return session.AwaitClose(&sender.control)
}

// learnMTU sends the peer one packet as large as packets are to be, or as the path takes, if
// that is less, so that a router that does not carry it can say so before START; the peer
// drops it.
func learnMTU(conn *sockets.Conn, cookie []byte, payload int) {
	packet := make([]byte, min(payload, datagram.LargestPayload(conn)))
	datagram.PutHeader(packet, cookie, datagram.Hello)
	// Should it fail, so will the test, and say why.
	_, _ = conn.Write(packet)
}
