package probetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Forged is what no terminal, log or report may get to see.
const Forged = "\x1b]0;owned\x07\x1b[2J\r\n09:00:00 10.0.0.1: done\u202e\u0085\u2028\x00"

// Possible holds that an outcome could be that of a test: its numbers are finite,
// its fractions are, and no more came than was sent; its texts can be shown.
func Possible(t testing.TB, what string, out measurement.Outcome) {
	t.Helper()
	for name, v := range out.Metrics {
		signed := name == "rtt_increase_seconds"
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 && !signed || strings.HasSuffix(name, "_fraction") && v > 1 && name != "duplicated_fraction" && name != "buffer_delay_fraction" {
			t.Errorf("%s: %s is %v", what, name, v)
		}
	}
	untold := slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "did not arrive in time") })
	for _, f := range out.Flows {
		if f.ReceivedBytes < 0 || f.SentBytes < f.ReceivedBytes && !untold {
			t.Errorf("%s: %d bytes came of %d", what, f.ReceivedBytes, f.SentBytes)
		}
	}
	for _, e := range []measurement.End{out.Source, out.Destination} {
		for _, f := range []float64{e.CPUBusy, e.SoftIRQ, e.Steal, e.BusiestCPU} {
			if !(f >= 0 && f <= 1) {
				t.Errorf("%s: a CPU busy to %v", what, f)
			}
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if len(text) > 4<<20 {
		t.Errorf("%s: an outcome of %d bytes", what, len(text))
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	Printed(t, what, all)
}

// Printed holds that every text below v can be shown.
func Printed(t testing.TB, what string, v any) {
	t.Helper()
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) > 8000 || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: the text %.60q", what, v)
		}
	case []any:
		for _, e := range v {
			Printed(t, what, e)
		}
	case map[string]any:
		for k, e := range v {
			Printed(t, what, k)
			if k != "hdr_v2" {
				Printed(t, what, e)
			}
		}
	}
}

// Changed is a JSON object in which one value is another; its path has dots, and
// numbers for what is in a list.
func Changed(payload []byte, path string, value any) []byte {
	var object any
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return payload
	}
	text, err := json.Marshal(set(object, path, value))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", path, err))
	}
	return text
}

func set(object any, path string, value any) any {
	if path == "" {
		return value
	}
	first, rest, _ := bytes.Cut([]byte(path), []byte("."))
	switch o := object.(type) {
	case []any:
		var i int
		if _, err := fmt.Sscan(string(first), &i); err == nil && i < len(o) {
			o[i] = set(o[i], string(rest), value)
		}
		return o
	case map[string]any:
		o[string(first)] = set(o[string(first)], string(rest), value)
		return o
	}
	return map[string]any{string(first): set(nil, string(rest), value)}
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

// Nobody is an address where nobody listens.
var Nobody = netip.MustParseAddrPort("127.0.0.1:9")

// UDPSocket is one towards an address.
func UDPSocket(t testing.TB, to netip.AddrPort) *sockets.Conn {
	t.Helper()
	udp, err := sockets.DialUDP(t.Context(), netip.AddrPort{}, to, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() }) // a UDP socket has nothing to flush
	return udp
}

// HonestLink is the client's end of a connection to a server that says nothing wrong.
func HonestLink() *session.Link {
	address := Nobody.String()
	return &session.Link{Local: address, Remote: address, Ready: protocol.Ready{Client: address, Server: address}}
}

// HonestHost is what the other end's host may have spent.
func HonestHost() *protocol.HostSeries {
	return &protocol.HostSeries{
		Host: "far", CPUs: 2, At: []float64{0, 1}, Busy: []float64{0, 1}, SoftIRQ: []float64{0, 0.1}, Steal: []float64{0, 0.1}, Total: []float64{0, 2},
		Busiest: [][]float64{{0, 0.9}}, Switches: []float64{0, 100}, DropsCounted: true, Drops: []measurement.Drop{{Place: "eth0", Packets: 2}},
	}
}

// HonestInfo is what the other end's socket may have seen.
func HonestInfo() measurement.TCPInfo {
	return measurement.TCPInfo{At: 0.02, RTT: 1e-4, MinRTT: 1e-5, CongestionWindow: 14480, SentBytes: 9000, RetransmittedBytes: 90, ReceiveWindowTime: 0.01,
		NotSent: 10, Delivered: 9, DuplicateSegments: 1, Thread: 0.01}
}

// directions are those of the tests in which a server's message is forged.
var directions = []measurement.Direction{measurement.Send, measurement.Receive}

// EveryValueMayLie replaces every single value of an honest message by one that nobody
// counted: outcome, which makes of a server's message what a client does, refuses it,
// or makes only of it what could be.
func EveryValueMayLie(t *testing.T, honest func(measurement.Direction) any, outcome func(d measurement.Direction, payload []byte) (measurement.Outcome, error)) {
	t.Helper()
	for _, d := range directions {
		payload, err := json.Marshal(honest(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := outcome(d, payload); err != nil {
			t.Errorf("%s, honest: %v", d, err)
		}
		var object any
		if err := json.Unmarshal(payload, &object); err != nil {
			t.Fatal(err)
		}
		for _, path := range leaves("", object) {
			for _, lie := range []any{-1, 0, 1e6, 1e14, 1e308, json.Number("9223372036854775808"), 0.5, Forged, nil, []int{}, map[string]any{}, true} {
				what := fmt.Sprintf("%s, %s = %.20v", d, path, lie)
				out, err := outcome(d, Changed(payload, path, lie))
				if err == nil {
					Possible(t, what, out)
				} else {
					Printed(t, what, err.Error())
				}
			}
		}
	}
}

// FuzzOutcome holds the same of any message.
func FuzzOutcome(f *testing.F, honest func(measurement.Direction) any, outcome func(d measurement.Direction, payload []byte) (measurement.Outcome, error)) {
	for i, d := range directions {
		payload, err := json.Marshal(honest(d))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), payload)
	}
	f.Fuzz(func(t *testing.T, direction uint8, payload []byte) {
		d := directions[direction%2]
		out, err := outcome(d, payload)
		if err == nil {
			Possible(t, string(d), out)
			return
		}
		Printed(t, string(d), err.Error())
	})
}
