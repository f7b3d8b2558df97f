package probe

import (
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

func udpForgedSpec(kind measurement.Kind, d measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: kind, Direction: d, Duration: 0.03, MaxWarmup: 0.01, PacketBytes: 500, CopyPayload: true}.Defaults()
}

// udpOutcomeOf is what a client makes of a server's message, in a test in which this
// end sent or received a little.
func udpOutcomeOf(udp *sockets.Conn, spec measurement.Spec, payload []byte) (out measurement.Outcome, err error) {
	f := &packetFlow{Link: honestLink(), udp: udp}
	if spec.Direction == measurement.Send {
		f.send = &packetSender{size: 500}
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
	return (&packetTest{req: req, flows: []*packetFlow{f}}).outcome(nil, 0)
}

// udpHonest is a message that a client believes in such a test.
func udpHonest(d measurement.Direction) any {
	if d == measurement.Receive {
		return protocol.Sent{Bytes: 9000, MeasuredPackets: 6, PacketBytes: 500, Host: honestHost()}
	}
	bins, width := session.BinsOf(udpForgedSpec(measurement.UDP, d))
	r := protocol.Received{
		Bins: measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
		Host: honestHost(), Effective: map[string]string{"gro": "on"}, Facts: []string{"a fact"},
		Packets: &protocol.Packets{Bins: make([]float64, bins), Sent: 10, Received: 5, Reordered: 1, Jitter: 1e-6},
	}
	r.Bins.Bytes[1], r.Packets.Bins[1] = 2500, 5
	return r
}

func udpOutcome(t testing.TB, kind measurement.Kind) func(measurement.Direction, []byte) (measurement.Outcome, error) {
	conn := udpSocket(t)
	return func(d measurement.Direction, payload []byte) (measurement.Outcome, error) {
		return udpOutcomeOf(conn, udpForgedSpec(kind, d), payload)
	}
}

func TestPacketValuesMayLie(t *testing.T) {
	everyValueMayLie(t, udpHonest, udpOutcome(t, measurement.UDP))
	everyValueMayLie(t, udpHonest, udpOutcome(t, measurement.PPS))
}

func FuzzPacketOutcome(f *testing.F) { fuzzOutcome(f, udpHonest, udpOutcome(f, measurement.UDP)) }
