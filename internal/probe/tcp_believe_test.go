package probe

import (
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

func tcpForgedSpec(d measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Direction: d, Duration: 0.03, MaxWarmup: 0.01, CopyPayload: true}.Defaults()
}

// tcpOutcomeOf is what a client makes of a server's message, in a test in which this
// end sent or received a little.
func tcpOutcomeOf(d measurement.Direction, payload []byte) (out measurement.Outcome, err error) {
	spec := tcpForgedSpec(d)
	f := &flow{Link: honestLink()}
	if d == measurement.Send {
		f.send = &sender{}
		f.send.sent.Store(9000)
		f.sent.Bytes = 9000
		err = protocol.Decode(protocol.TypeReceived, payload, protocol.TypeReceived, &f.received)
	} else {
		f.receive = newReceiver(session.ControlConn{}, spec, nil)
		f.receive.bins[0] = 4000
		f.receive.count.Store(4000)
		err = protocol.Decode(protocol.TypeSent, payload, protocol.TypeSent, &f.sent)
	}
	if err != nil {
		return out, err
	}
	req := session.Request{Spec: spec, Target: netip.MustParseAddrPort("127.0.0.1:9")}
	return (&tcpTest{req: req, flows: []*flow{f}}).outcome(nil, 0)
}

// tcpHonest is a message that a client believes in such a test.
func tcpHonest(d measurement.Direction) any {
	info, texts := honestInfo(), map[string]string{"congestion_control": "cubic"}
	if d == measurement.Receive {
		return protocol.Sent{Bytes: 9000, Final: &info, Info: []measurement.TCPInfo{info}, Host: honestHost(), Effective: texts}
	}
	bins, width := session.BinsOf(tcpForgedSpec(d))
	r := protocol.Received{
		Bins: measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
		Host: honestHost(), Effective: texts, Facts: []string{"a fact"},
	}
	r.Bins.Bytes[1] = 2500
	return r
}

func TestTCPValuesMayLie(t *testing.T) { everyValueMayLie(t, tcpHonest, tcpOutcomeOf) }

func FuzzTCPOutcome(f *testing.F) { fuzzOutcome(f, tcpHonest, tcpOutcomeOf) }
