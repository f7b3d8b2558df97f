package probe

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// outcomeOf is what a client makes of a server's message, in a test in which this end
// sent or received a little.
func outcomeOf(t testing.TB, udp *sockets.Conn, kind measurement.Kind, d measurement.Direction, payload []byte) (out measurement.Outcome, err error) {
	spec := measurement.Spec{Kind: kind, Direction: d, Duration: 0.03, MaxWarmup: 0.01, PacketBytes: 500, CopyPayload: true, FileBytes: 900}.Defaults()
	req := session.Request{Spec: spec, Target: netip.MustParseAddrPort("127.0.0.1:9")}
	address := "127.0.0.1:9"
	l := &session.Link{Local: address, Remote: address, Ready: protocol.Ready{Client: address, Server: address}}
	decode := func(kind protocol.Type, v any) {
		if err == nil {
			err = protocol.Decode(kind, payload, kind, v)
		}
	}
	bins, width := session.BinsOf(spec)
	switch {
	case kind == measurement.FTP:
		test := &ftpTest{req: req, spec: spec, link: l, client: &ftp.Client{}, started: time.Now()}
		result := ftp.Result{Started: time.Now(), Took: time.Second, Bytes: 900, Segments: []ftp.Segment{{Bytes: 450}, {Offset: 450, Bytes: 450}}}
		if decode(protocol.TypeReport, &test.report); err != nil {
			return out, err
		}
		if d == measurement.Send {
			result, err = test.stored(2 * time.Second)
		} else {
			err = checkTransfers(test.report, result.Segments, 900)
		}
		if err != nil {
			return out, err
		}
		return test.outcome(result, nil, 0), nil
	case kind == measurement.TCP:
		f := &flow{Link: l}
		if d == measurement.Send {
			f.send = &sender{}
			f.send.sent.Store(9000)
			f.sent.Bytes = 9000
			decode(protocol.TypeReceived, &f.received)
		} else {
			f.receive = newReceiver(session.ControlConn{}, spec, nil)
			f.receive.bins[0] = 4000
			f.receive.count.Store(4000)
			decode(protocol.TypeSent, &f.sent)
		}
		if err != nil {
			return out, err
		}
		return (&tcpTest{req: req, flows: []*flow{f}}).outcome(nil, 0)
	}
	f := &packetFlow{Link: l, udp: udp}
	if d == measurement.Send {
		f.send = &packetSender{size: 500}
		f.send.sent.Store(20)
		f.sent = protocol.Sent{Bytes: 10_000, MeasuredPackets: 10, PacketBytes: 500}
		decode(protocol.TypeReceived, &f.received)
	} else {
		decode(protocol.TypeSent, &f.sent)
		f.received = protocol.Received{
			Bins:    measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
			Packets: &protocol.Packets{Bins: make([]float64, bins), Sent: f.sent.MeasuredPackets, Received: 5},
		}
		f.received.Bins.Bytes[1], f.received.Packets.Bins[1] = 2500, 5
	}
	if err != nil {
		return out, err
	}
	return (&packetTest{req: req, flows: []*packetFlow{f}}).outcome(nil, 0)
}

// honest is a message that a client believes in such a test.
func honest(kind measurement.Kind, d measurement.Direction) any {
	spec := measurement.Spec{Kind: kind, Direction: d, Duration: 0.03, MaxWarmup: 0.01}.Defaults()
	bins, width := session.BinsOf(spec)
	host := &protocol.HostSeries{
		Host: "far", CPUs: 2, At: []float64{0, 1}, Busy: []float64{0, 1}, SoftIRQ: []float64{0, 0.1}, Total: []float64{0, 2},
		Busiest: [][]float64{{0, 0.9}}, Switches: []float64{0, 100}, DropsCounted: true, Drops: []measurement.Drop{{Place: "eth0", Packets: 2}},
	}
	sample := measurement.TCPInfo{At: 0.02, RTT: 1e-4, MinRTT: 1e-5, CongestionWindow: 14480, SentBytes: 9000, RetransmittedBytes: 90, ReceiveWindowTime: 0.01}
	texts := map[string]string{"congestion_control": "cubic"}
	count := measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)}
	switch {
	case kind == measurement.FTP && d == measurement.Send:
		stored := measurement.Bins{Width: 0.01, Bytes: []float64{900}}
		return protocol.Report{Host: host, Transfers: []protocol.Transfer{{Bytes: 900, Took: 1, Bins: &stored}}}
	case kind == measurement.FTP:
		return protocol.Report{Host: host, Transfers: []protocol.Transfer{{Bytes: 900, Final: &sample}, {Offset: 450, Bytes: 450, Info: []measurement.TCPInfo{sample}}}}
	case d == measurement.Receive:
		return protocol.Sent{
			Bytes: 9000, MeasuredPackets: 6, PacketBytes: 500, Final: &sample, Info: []measurement.TCPInfo{sample}, Host: host, Effective: texts,
		}
	}
	r := protocol.Received{Bins: count, Host: host, Effective: texts, Facts: []string{"a fact"}}
	r.Bins.Bytes[1] = 2500
	if kind != measurement.TCP {
		r.Packets = &protocol.Packets{Bins: []float64{0, 5, 0, 0}, Sent: 10, Received: 5, Reordered: 1, Jitter: 1e-6}
	}
	return r
}

var (
	believedKinds      = []measurement.Kind{measurement.TCP, measurement.UDP, measurement.PPS, measurement.FTP}
	believedDirections = []measurement.Direction{measurement.Send, measurement.Receive}
)

func udpSocket(t testing.TB) *sockets.Conn {
	t.Helper()
	udp, err := sockets.DialUDP(t.Context(), netip.AddrPort{}, netip.MustParseAddrPort("127.0.0.1:9"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() }) // a UDP socket has nothing to flush
	return udp
}

// Every single value of an honest message replaced by one that nobody counted: the
// client refuses it, or makes only of it what could be.
func TestEveryValueMayLie(t *testing.T) {
	udp := udpSocket(t)
	for _, kind := range believedKinds {
		for _, d := range believedDirections {
			payload, err := json.Marshal(honest(kind, d))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := outcomeOf(t, udp, kind, d, payload); err != nil {
				t.Errorf("%s %s, honest: %v", kind, d, err)
			}
			var object any
			if err := json.Unmarshal(payload, &object); err != nil {
				t.Fatal(err)
			}
			for _, path := range leaves("", object) {
				for _, lie := range []any{-1, 0, 1e6, 1e14, 1e308, json.Number("9223372036854775808"), 0.5, forged, nil, []int{}, map[string]any{}, true} {
					what := fmt.Sprintf("%s %s, %s = %.20v", kind, d, path, lie)
					out, err := outcomeOf(t, udp, kind, d, changed(payload, path, lie))
					if err == nil {
						possible(t, what, out)
					} else {
						printed(t, what, err.Error())
					}
				}
			}
		}
	}
}

// leaves are the paths of all values below v that have none below.
func leaves(path string, v any) (all []string) {
	join := func(k string) string { return strings.TrimPrefix(path+"."+k, ".") }
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			all = append(append(all, join(k)), leaves(join(k), e)...)
		}
	case []any:
		for i, e := range v {
			all = append(append(all, join(fmt.Sprint(i))), leaves(join(fmt.Sprint(i)), e)...)
		}
	}
	return all
}

// FuzzOutcome holds the same of any message.
func FuzzOutcome(f *testing.F) {
	for i, kind := range believedKinds {
		for j, d := range believedDirections {
			payload, err := json.Marshal(honest(kind, d))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), uint8(j), payload)
		}
	}
	udp := udpSocket(f)
	f.Fuzz(func(t *testing.T, kind, direction uint8, payload []byte) {
		k, d := believedKinds[int(kind)%len(believedKinds)], believedDirections[direction%2]
		out, err := outcomeOf(t, udp, k, d, payload)
		if err == nil {
			possible(t, string(k), out)
			return
		}
		printed(t, string(k), err.Error())
	})
}
