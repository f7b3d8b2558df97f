package tcp

import (
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

func forgedSpec(d measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Direction: d, Duration: 0.03, MaxWarmup: 0.01, CopyPayload: true}.Defaults()
}

// outcomeOf is what a client makes of a server's message, in a test in which this
// end sent or received a little.
func outcomeOf(d measurement.Direction, payload []byte) (out measurement.Outcome, err error) {
	spec := forgedSpec(d)
	f := &flow{Link: probetest.HonestLink()}
	if d == measurement.Send {
		f.send = &sender{}
		f.send.sent.Store(9000)
		f.sent.Bytes = 9000
		err = protocol.Decode(protocol.TypeReceived, payload, protocol.TypeReceived, &f.received)
	} else {
		f.receive = newReceiver(session.ControlConn{}, spec, nil, false)
		f.receive.bins[0] = 4000
		f.receive.count.Store(4000)
		err = protocol.Decode(protocol.TypeSent, payload, protocol.TypeSent, &f.sent)
	}
	if err != nil {
		return out, err
	}
	req := session.Request{Spec: spec, Target: netip.MustParseAddrPort("127.0.0.1:9")}
	return (&test{req: req, flows: []*flow{f}}).outcome(nil, 0)
}

// honest is a message that a client believes in such a test.
func honest(d measurement.Direction) any {
	info, texts := probetest.HonestInfo(), map[string]string{"congestion_control": "cubic"}
	if d == measurement.Receive {
		return protocol.Sent{Bytes: 9000, Final: &info, Info: []measurement.TCPInfo{info}, Host: probetest.HonestHost(), Effective: texts}
	}
	bins, width := session.BinsOf(forgedSpec(d))
	r := protocol.Received{
		Bins: measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
		Info: []measurement.ReceiverInfo{{At: 0.02, Unread: 10, OutOfOrder: 1, Thread: 0.01}},
		Host: probetest.HonestHost(), Effective: texts, Facts: []string{"a fact"},
	}
	r.Bins.Bytes[1] = 2500
	return r
}

func TestEveryValueMayLie(t *testing.T) { probetest.EveryValueMayLie(t, honest, outcomeOf) }

func FuzzOutcome(f *testing.F) { probetest.FuzzOutcome(f, honest, outcomeOf) }
