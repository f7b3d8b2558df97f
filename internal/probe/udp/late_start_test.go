package udp

import (
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stoppedSender is one that is about to send slowly for so long, and the other end of its
// control connection, from which STOP has come already.
func stoppedSender(t *testing.T, length time.Duration) (*sender, *session.ControlConn) {
	t.Helper()
	sink, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	t.Cleanup(func() { _ = sink.Close() })
	packets := probetest.UDPSocket(t, sink.LocalAddr().(*net.UDPAddr).AddrPort())
	near, far := probetest.Conns(t)
	spec := measurement.Spec{Kind: measurement.PPS, Duration: measurement.SecondsOf(length), RateBitsPerSecond: 1e6}.Defaults()
	s, err := newSender(near, packets, spec, make([]byte, protocol.CookieBytes), new(packetPages))
	testutil.OK(t, err)
	s.warmup, s.end = 0, length
	testutil.OK(t, protocol.WriteFrame(&far, protocol.TypeStop, nil))
	return s, &far
}

// A receiver that is ahead, since its START was late, shortens no measured time.
func TestStopWaitsForTheMeasuredTime(t *testing.T) {
	s, _ := stoppedSender(t, 50*time.Millisecond)
	s.start = time.Now()
	testutil.OK(t, s.run())
	if took := time.Since(s.start); took < s.end || s.measured == 0 {
		t.Errorf("it sent %d packets in %v of %v", s.measured, took, s.end)
	}
	if _, err := s.finish(func() *protocol.HostSeries { return nil }); err != nil {
		t.Errorf("STOP is not remembered: %v", err)
	}
}

// One that vanishes after its STOP, or says why the test ends, ends the sending at once.
func TestEndAfterStop(t *testing.T) {
	for name, end := range map[string]func(*session.ControlConn) error{
		"closed": func(far *session.ControlConn) error { return far.CloseWrite() },
		"error": func(far *session.ControlConn) error {
			return protocol.WriteFrame(far, protocol.TypeError, protocol.RemoteError{Reason: string(session.TimedOut)})
		},
	} {
		s, far := stoppedSender(t, time.Hour)
		testutil.OK(t, end(far))
		s.start = time.Now()
		if err := s.run(); err == nil {
			t.Errorf("%s: it ended without an error", name)
		}
	}
}
