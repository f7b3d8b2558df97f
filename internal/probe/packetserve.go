package probe

import (
	"net"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// vanishing has the kernel ask on the control connection whether a client is still
// there to which packets are sent. One that is gone without a word is noticed after
// 20 s; so many tries are not lost by chance on a path that carries half of what is
// sent.
var vanishing = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 18}

// servePackets is the server's end of one flow of a udp or pps test.
func (s *Server) servePackets(w *wire, open *opened, ready *protocol.Ready) error {
	spec := paced(open.Spec, s.opts.MaxRateBitsPerSecond)
	conn, err := s.meet(w, open, ready)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	if err := mark(conn, spec); err != nil {
		return &protocol.RemoteError{Reason: string(Unsupported), Message: err.Error()}
	}
	if spec.Direction == measurement.Receive {
		return s.sendPackets(w, conn, open, spec)
	}
	r, err := newPacketReceiver(*w, conn, spec, ready.Cookie)
	if err != nil {
		return err
	}
	if r.start, err = readStart(&r.control, spec); err != nil {
		return err
	}
	host := s.startHost(open, r.start)
	defer host.end()
	defer open.session.meter.add(false, r.arrived.Load)()
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

func (s *Server) sendPackets(w *wire, conn *sockets.Conn, open *opened, spec measurement.Spec) error {
	cookie := open.session.cookie[:]
	if spec.PacketBytes == 0 {
		learnMTU(conn, cookie)
	}
	// The session lasts at least as long as this connection of it.
	sender, err := newPacketSender(*w, conn, spec, cookie, &open.session.pages)
	if err != nil {
		return err
	}
	if sender.start, err = readStart(&sender.control, spec); err != nil {
		return err
	}
	host := s.startHost(open, sender.start)
	defer host.end()
	defer open.session.meter.add(true, func() int64 { return sender.sent.Load() * int64(sender.size) })()
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

// readStart waits for START, for as long as the client may need to connect its
// other flows, and gives the test its deadline and the flow its thread.
func readStart(w *wire, spec measurement.Spec) (time.Time, error) {
	w.until(time.Now().Add(startTimeout))
	if err := protocol.Expect(w, protocol.TypeStart, protocol.Empty, nil); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	w.until(start.Add(planned(spec) + grace))
	if w.began != nil {
		return start, w.began()
	}
	return start, nil
}

// optionalHost samples the host for the one connection of a test that is asked to.
type optionalHost struct {
	*hostSampler
	leave func()
}

func (s *Server) startHost(o *opened, start time.Time) optionalHost {
	if !s.takeSampling(o) {
		return optionalHost{}
	}
	return optionalHost{startHostSampler(start), func() { s.leaveSampling(o) }}
}

func (h optionalHost) end() {
	if h.hostSampler != nil {
		h.hostSampler.end()
		h.leave()
	}
}

func (h optionalHost) result() *protocol.HostSeries {
	if h.hostSampler == nil {
		return nil
	}
	return h.hostSampler.result()
}
