package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// FuzzRequest: whatever a coordinator's request says, an agent answers it with
// a reply that fits a frame, and never panics. Requests are turned away from
// every network first: a test without a target and a server at an address of somebody
// else are refused, after all else was read.
func FuzzRequest(f *testing.F) {
	for _, r := range []request{
		{ID: 2, Op: opListen, Listen: &listenRequest{Address: netip.MustParseAddrPort("127.0.0.1:5201"), Token: testToken, IPerf3Open: true}},
		{ID: math.MaxUint64, Op: opRun, Run: &probe.Request{ID: "t", Token: testToken, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 10_000}.Defaults()}},
		{Op: opRun, Hold: true, Run: &probe.Request{Spec: measurement.Spec{Kind: measurement.TCP, Pairs: 30}}},
		{Op: opRun, Run: &probe.Request{Spec: measurement.Spec{Kind: measurement.UDP, LossBound: 0.5, Tool: measurement.IPerf3}}},
		{Op: opHello, Hello: &helloRequest{Protocol: protocol.AgentVersion, Version: "v1"}},
		{Op: opProve, Run: &probe.Request{Source: netip.MustParseAddr("fe80::1%lo")}},
		{Op: opCounters, Interface: "lo"},
		{Op: opUnlisten, Unlisten: new(netip.AddrPort)},
		{Op: opCanary, Canary: &CanaryRequest{UserAgent: "x\r\ny: z", Timeout: 1}},
	} {
		payload, err := json.Marshal(r)
		testutil.OK(f, err)
		f.Add(payload)
	}
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"op":"run"}`, `{"op":"listen","listen":{}}`, `{"op":"listen","listen":{"address":"::1:"}}`,
		`{"id":-1}`, `{"id":1e3}`, `{"op":"run","run":{"spec":{"flows":1e99}}}`, `{"op":"run","run":{"spec":{"kind":"` + strings.Repeat("\u2028", 3000) + `"}}}`} {
		f.Add([]byte(text))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := newServer(ctx, nil, Options{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > maxRequest {
			return // never read
		}
		r, err := parseRequest(payload)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		if same, err := parseRequest(again); err != nil || !reflect.DeepEqual(same, r) {
			t.Fatalf("read %+v, and then %+v, %v", r, same, err)
		}
		if r.Run != nil {
			r.Run.Target = netip.AddrPort{}
		}
		if r.Listen != nil {
			r.Listen.Address = netip.MustParseAddrPort("192.0.2.1:1")
		}
		if r.Canary != nil {
			r.Canary.Target = netip.AddrPort{}
		}
		answer := s.handle(ctx, r)
		if answer.Error == nil && r.Op != opHello && r.Op != opCounters {
			t.Fatalf("%s is answered with %+v", r.Op, answer)
		}
		if frame, err := protocol.Encode(protocol.TypeAgentReply, answer); err != nil || len(frame) > protocol.HeaderBytes+maxReply {
			t.Fatalf("the reply has %d bytes: %v", len(frame), err)
		}
	})
}

// The reply of the largest test, in both directions, fits a frame.
func TestReplyOfManyFlowsFitsAFrame(t *testing.T) {
	sample := measurement.TCPInfo{At: 123.456789012, RTT: 0.00123456789, RTTVariation: 0.000123456789, MinRTT: 0.000123456789,
		CongestionWindow: 1 << 30, SendWindow: 1 << 30, MSS: 1448, PathMTU: 1500, PacingRate: 123456789012.34, DeliveryRate: 123456789012.34,
		Retransmits: 123456789, InFlight: 1 << 30, Busy: 123.456789012, ReceiveWindowTime: 123.456789012, SendBufferTime: 123.456789012}
	series := make([]measurement.TCPInfo, 60)
	for i := range series {
		series[i] = sample
	}
	address := "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535"
	out := measurement.Outcome{Throughput: &measurement.Bins{Bytes: make([]float64, 6000)}}
	for range 2 * probe.MaxFlows {
		out.Flows = append(out.Flows, measurement.Flow{Source: address, Destination: address, ReceivedBytes: 1 << 50, SentBytes: 1 << 50, Final: &sample, Info: series})
	}
	out.Thin()
	frame, err := protocol.Encode(protocol.TypeAgentReply, reply{ID: math.MaxUint64, Outcome: &out})
	testutil.OK(t, err)
	if len(frame) > protocol.HeaderBytes+maxReply {
		t.Errorf("the reply has %d bytes, more than the %d of a frame", len(frame), maxReply)
	}
}

// What an agent writes is one line for people, whatever its tests' peers had it say.
func TestRepliesCanBeShown(t *testing.T) {
	const forged = "\x1b]0;owned\x07\r\n09:00:00 all is well\u202e\u0085"
	near, far := net.Pipe()
	c := NewClient(near)
	var answered sync.WaitGroup
	answer := func(r reply) {
		answered.Go(func() {
			var asked request
			if err := protocol.Expect(far, protocol.TypeAgentRequest, maxRequest, &asked); err != nil {
				t.Error(err)
				return
			}
			r.ID = asked.ID
			if err := protocol.WriteFrame(far, protocol.TypeAgentReply, r); err != nil {
				t.Error(err)
			}
		})
	}
	answer(reply{Outcome: &measurement.Outcome{
		Metrics: measurement.Metrics{forged: 1}, Facts: []string{forged}, Effective: map[string]string{forged: forged},
		Flows: []measurement.Flow{{Source: forged}}, Source: measurement.End{Host: forged, Drops: []measurement.Drop{{Place: forged}}},
	}})
	out, err := c.Run(t.Context(), probe.Request{}, nil)
	text := fmt.Sprintf("%+v", out)
	if err != nil || !strings.Contains(text, "all is well") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q, %v", text, err)
	}
	answer(reply{Error: &replyError{Op: forged, Reason: forged, Message: forged}})
	_, err = c.Run(t.Context(), probe.Request{}, nil)
	if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", err)
	}
	answered.Wait()
	if err := errors.Join(c.Close(), far.Close()); err != nil {
		t.Error(err)
	}
}

// A host of containers has more interfaces than are told of: those that a path may go to are
// among them.
func TestInterfacesThatAreToldOf(t *testing.T) {
	var all []Interface
	for i := range 2 * maxInterfaces {
		all = append(all, Interface{Name: fmt.Sprint("veth", i), Addresses: []netip.Addr{netip.MustParseAddr("fe80::1")}})
	}
	all = append(all, Interface{Name: "tunnel", Addresses: []netip.Addr{netip.MustParseAddr("fe80::2"), netip.MustParseAddr("10.66.0.2")}})
	got := told(all)
	if len(got) != maxInterfaces || got[0].Name != "tunnel" || got[1].Name != "veth0" {
		t.Errorf("%d interfaces, first %v", len(got), got[:2])
	}
}
