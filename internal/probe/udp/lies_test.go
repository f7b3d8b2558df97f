package udp

import (
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

func forgedSpec(kind measurement.Kind, d measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: kind, Direction: d, Duration: 0.03, MaxWarmup: 0.01, PacketBytes: 500, CopyPayload: true}.Defaults()
}

// outcomeOf is what a client makes of a server's message, in a test in which this
// end sent or received a little.
func outcomeOf(udp *sockets.Conn, spec measurement.Spec, payload []byte) (out measurement.Outcome, err error) {
	f := &flow{Link: probetest.HonestLink(), udp: udp}
	if spec.Direction == measurement.Send {
		f.send = &sender{size: 500}
		f.send.sent.Store(20)
		f.sent = protocol.Sent{Bytes: 10_000, MeasuredPackets: 10, PacketBytes: 500}
		err = protocol.Decode(protocol.TypeReceived, payload, protocol.TypeReceived, &f.received)
	} else {
		err = protocol.Decode(protocol.TypeSent, payload, protocol.TypeSent, &f.sent)
		bins, width := session.BinsOf(spec)
		f.received = protocol.Received{
			Bins:    measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
			Packets: &protocol.Packets{Bins: make([]float64, bins), Sent: f.sent.MeasuredPackets, Received: 5},
		}
		f.received.Bins.Bytes[1], f.received.Packets.Bins[1] = 2500, 5
	}
	if err != nil {
		return out, err
	}
	req := session.Request{Spec: spec, Target: netip.MustParseAddrPort("127.0.0.1:9")}
	return (&test{req: req, flows: []*flow{f}}).outcome(nil, 0)
}

// honest is a message that a client believes in such a test.
func honest(d measurement.Direction) any {
	if d == measurement.Receive {
		return protocol.Sent{Bytes: 9000, MeasuredPackets: 6, PacketBytes: 500, Host: probetest.HonestHost()}
	}
	bins, width := session.BinsOf(forgedSpec(measurement.UDP, d))
	r := protocol.Received{
		Bins: measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
		Host: probetest.HonestHost(), Effective: map[string]string{"gro": "on"}, Facts: []string{"a fact"},
		Packets: &protocol.Packets{Bins: make([]float64, bins), Sent: 10, Received: 5, Reordered: 1, Jitter: 1e-6},
	}
	r.Bins.Bytes[1], r.Packets.Bins[1] = 2500, 5
	return r
}

func udpOutcome(t testing.TB, kind measurement.Kind) func(measurement.Direction, []byte) (measurement.Outcome, error) {
	conn := probetest.UDPSocket(t, probetest.Nobody)
	return func(d measurement.Direction, payload []byte) (measurement.Outcome, error) {
		return outcomeOf(conn, forgedSpec(kind, d), payload)
	}
}

func TestEveryValueMayLie(t *testing.T) {
	probetest.EveryValueMayLie(t, honest, udpOutcome(t, measurement.UDP))
	probetest.EveryValueMayLie(t, honest, udpOutcome(t, measurement.PPS))
}

func FuzzOutcome(f *testing.F) { probetest.FuzzOutcome(f, honest, udpOutcome(f, measurement.UDP)) }
