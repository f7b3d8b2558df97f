package probe

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// packetServer is a server's end of all udp or pps tests.
type packetServer struct {
	maxRate float64 // of one test, in bit/s; 0 none
	accept  func(*wire, *opened, *protocol.Ready) (*sockets.Conn, error)
}

// begin keeps what the flows of a test send without a copy.
func (s *packetServer) begin(t *session) (end func() error) {
	pages := &packetPages{}
	t.State = pages
	return pages.close
}

// serve is the server's end of one flow of a udp or pps test.
func (s *packetServer) serve(w *wire, open *opened, ready *protocol.Ready) error {
	spec := pacedPackets(open.Spec, s.maxRate)
	conn, err := s.accept(w, open, ready)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := mark(conn, spec); err != nil {
		return err
	}
	if spec.Direction == measurement.Receive {
		return s.send(w, conn, open, spec)
	}
	r, err := newPacketReceiver(*w, conn, spec, ready.Cookie)
	if err != nil {
		return err
	}
	if r.start, err = r.control.readStart(planned(spec) + grace); err != nil {
		return err
	}
	host := open.sampleHost(r.start)
	defer host.end()
	defer open.Test.Meter.add(false, r.arrived.Load)()
	sent, err := r.run()
	if err != nil {
		return err
	}
	received := r.received(sent, r.stepped())
	received.Host = host.result()
	if err := protocol.WriteFrame(&r.control, protocol.TypeReceived, received); err != nil {
		return err
	}
	return drained(&r.control)
}

func (s *packetServer) send(w *wire, conn *sockets.Conn, open *opened, spec measurement.Spec) error {
	cookie := open.Test.Cookie[:]
	if spec.PacketBytes == 0 {
		learnMTU(conn, cookie)
	}
	// The session lasts at least as long as this connection of it.
	sender, err := newPacketSender(*w, conn, spec, cookie, open.Test.State.(*packetPages))
	if err != nil {
		return err
	}
	if sender.start, err = sender.control.readStart(planned(spec) + grace); err != nil {
		return err
	}
	host := open.sampleHost(sender.start)
	defer host.end()
	defer open.Test.Meter.add(true, func() int64 { return sender.sent.Load() * int64(sender.size) })()
	if err := sender.run(); err != nil {
		return err
	}
	if _, err := sender.finish(host.result); err != nil {
		return err
	}
	// The client closes when the last packets have come.
	return drained(&sender.control)
}

// learnMTU sends the peer one packet as large as packets are to be, so that a
// router that does not carry it can say so before START; the peer drops it.
func learnMTU(conn *sockets.Conn, cookie []byte) {
	packet := make([]byte, largestPacket(conn))
	putDatagram(packet, cookie, datagramHello)
	// Should it fail, so will the test, and say why.
	_, _ = conn.Write(packet)
}
