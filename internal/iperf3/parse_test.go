package iperf3

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// recordedParams is what Debian's iperf3 3.12 sends for `-P 2 -O 1 --bidir`.
const recordedParams = `{"tcp":true,"omit":1,"time":10,"num":0,"blockcount":0,"parallel":2,"bidirectional":true,"len":131072,"pacing_timer":1000,"client_version":"3.12"}`

// A server of 3.18 or later heeds a parameter only if its value has the type that the
// program itself writes.
func TestParamsAreOfTheTypesOfIPerf3(t *testing.T) {
	c := client{req: Request{UDP: true, Direction: measurement.Receive, Streams: 2, Seconds: 1, PacketBytes: 1000}}
	c.ask()
	text, err := json.Marshal(c.params)
	testutil.OK(t, err)
	var got map[string]any
	testutil.OK(t, json.Unmarshal(text, &got))
	for key, want := range map[string]any{"udp": true, "reverse": true, "udp_counters_64bit": 1.0, "parallel": 2.0, "len": 1000.0} {
		if got[key] != want {
			t.Errorf("%s is %v (%T), want %v (%T)", key, got[key], got[key], want, want)
		}
	}
}

// recordedResults is what it says at the end of a test with one stream.
const recordedResults = `{"cpu_util_total":41.118258287976253,"cpu_util_user":0,"cpu_util_system":41.068777832756062,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":982987,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":0.000617}]}`

func TestParams(t *testing.T) {
	for _, test := range []struct {
		text string
		want code // 0 is fine
	}{
		{recordedParams, 0},
		{`{"udp":true,"time":1,"parallel":1,"udp_counters_64bit":1,"dont_fragment":1}`, 0},
		{`{"tcp":true,"time":86401}`, codeDuration},
		{`{"tcp":true,"time":1e400}`, codeRecvParams},
		{`{"tcp":true,"omit":601}`, codeOmit},
		{`{"tcp":true,"omit":0.5}`, codeOmit},
		{`{"tcp":true,"parallel":129}`, codeStreams},
		{`{"tcp":true,"parallel":-1}`, codeStreams},
		{`{"tcp":true,"len":1048577}`, codeBlockSize},
		{`{"udp":true,"len":15}`, codeUDPBlockSize},
		{`{"udp":true,"len":65508}`, codeUDPBlockSize},
		{`{"tcp":true,"window":536870913}`, codeBufferSize},
		{`{"tcp":true,"MSS":40000}`, codeMSS},
		{`{"tcp":true,"TOS":256}`, codeTOS},
		{`{"tcp":true,"burst":1001}`, codeBurst},
		{`{"tcp":true,"bandwidth":-1}`, codeRecvParams},
		{`{"tcp":true,"reverse":true,"bidirectional":true}`, codeReverseBidir},
		{`{"tcp":true,"udp":true}`, codeRecvParams},
		{`{"sctp":true}`, codeNoSCTP},
		{`{"tcp":true,"authtoken":"x"}`, codeAuthorization},
		{`{"tcp":true,"congestion":"sixteen-letters-"}`, codeCongestion},
		{`{"tcp":"yes"}`, codeRecvParams},
		{`[]`, codeRecvParams},
	} {
		var p params
		got := code(0)
		if err := json.Unmarshal([]byte(test.text), &p); err != nil {
			got = codeRecvParams
		} else if r := p.check(); r != nil {
			got = r.code
		}
		if got != test.want {
			t.Errorf("%s: code %d, want %d", test.text, got, test.want)
		}
	}
}

func TestClientVersion(t *testing.T) {
	for version, want := range map[string]bool{"3.20": true, "3.21+": true, "3.19.1": false, "3.9": false, "": false, "hopbench": false, "4.1": false} {
		if got := (params{ClientVersion: version}).knows(20); got != want {
			t.Errorf("%q knows what came with 3.20: %v", version, got)
		}
	}
}

func TestStreamOrder(t *testing.T) {
	// iperf_add_stream gives 1, 3, 4, 5, …
	for i, want := range []int{1, 3, 4, 5} {
		if got := streamID(i); got != want {
			t.Errorf("stream %d has the number %d, want %d", i, got, want)
		}
	}
	p := params{Parallel: 2, Bidirectional: true}
	for i, want := range []bool{true, true, false, false} {
		if p.receives(i) != want {
			t.Errorf("the server receives stream %d: %v", i, !want)
		}
	}
}

func TestResults(t *testing.T) {
	var r results
	testutil.OK(t, json.Unmarshal([]byte(recordedResults), &r))
	s, err := r.check(1)
	testutil.OK(t, err)
	if s[0].Bytes != 982987 || s[0].Retransmits != -1 || s[0].seconds() != 0.000617 {
		t.Errorf("stream is %+v", s[0])
	}
	testutil.OK(t, json.Unmarshal([]byte(strings.Replace(recordedResults, `"jitter":0`, `"jitter":1.5e7`, 1)), &r))
	if _, err := r.check(1); err != nil {
		t.Errorf("the jitter of an old iperf3, whose clock is another: %v", err)
	}
	for _, bad := range []string{
		strings.Replace(recordedResults, `"id":1`, `"id":2`, 1),
		strings.Replace(recordedResults, `"id":1`, `"id":1.5`, 1),
		strings.Replace(recordedResults, `982987`, `-1`, 1),
		strings.Replace(recordedResults, `"jitter":0`, `"jitter":-1`, 1),
		`{"streams":[]}`,
		`{"streams":[{"id":1},{"id":1}]}`,
	} {
		var r results
		testutil.OK(t, json.Unmarshal([]byte(bad), &r))
		if _, err := r.check(1); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestMessageBound(t *testing.T) {
	for _, text := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff{}", "\x00\x00\x00\x0b{\"time\":1}x", "\x00\x00\x00\x03{}"} {
		var p params
		if err := readMessage(strings.NewReader(text), 10, &p); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestCookie(t *testing.T) {
	for range 100 {
		c := newCookie()
		if back, err := parseCookie(c[:]); err != nil || back != c {
			t.Errorf("%q: %v", c, err)
		}
	}
	old := append([]byte("Host.example.1234567890.123456.0123"), 'x', 0)
	if _, err := parseCookie(old); err != nil {
		t.Errorf("the cookie of an iperf3 3.1: %v", err)
	}
	for _, bad := range []string{"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaa", strings.Repeat("a", 37), strings.Repeat("a", 36)} {
		if _, err := parseCookie([]byte(bad)); err == nil {
			t.Errorf("%q is a cookie", bad)
		}
	}
	if BeginsCookie(0xf0) {
		t.Error("a native client is taken for an iperf3 client")
	}
}

// TestArrivals counts sequences by hand.
func TestArrivals(t *testing.T) {
	for _, test := range []struct {
		numbers             []uint64
		highest, lost, late int64
	}{
		{[]uint64{1, 2, 3}, 3, 0, 0},
		{[]uint64{1, 4}, 4, 2, 0},
		{[]uint64{1, 3, 2, 4}, 4, 0, 1},
		{[]uint64{2, 1}, 2, 0, 1},
		{[]uint64{1, 1}, 1, 0, 1},
		{[]uint64{0, 1 << 63, math.MaxUint64, 1}, 1, 0, 0},
	} {
		a := arrivals{first: true}
		for i, n := range test.numbers {
			a.arrive(header{number: n}, time.Duration(i))
		}
		if a.highest != test.highest || a.lost != test.lost || a.outOfOrder != test.late {
			t.Errorf("%v: %+v", test.numbers, a)
		}
	}
}

// TestJitter compares the estimate with RFC 3550's formula, worked by hand for
// transits of 0, 16, 0 ms beyond any offset of the clocks.
func TestJitter(t *testing.T) {
	for _, offset := range []time.Duration{0, -time.Hour, time.Hour} {
		a := arrivals{first: true}
		for i, transit := range []time.Duration{0, 16 * time.Millisecond, 0} {
			sent := time.Duration(i) * time.Second
			a.arrive(header{sent: sent, number: uint64(i + 1)}, sent+transit+offset)
		}
		// 0; (16-0)/16 = 1; 1+(16-1)/16 = 1.9375
		if want := 0.0019375; math.Abs(a.jitter-want) > 1e-12 {
			t.Errorf("jitter is %v, want %v", a.jitter, want)
		}
	}
}

func TestHeader(t *testing.T) {
	for _, wide := range []bool{false, true} {
		b := make([]byte, headerBytes)
		sent := 12*time.Second + 345678*time.Microsecond
		putHeader(b, sent, 77, wide)
		if h, ok := parseHeader(b, wide); !ok || h.sent != sent || h.number != 77 {
			t.Errorf("wide %v: %+v", wide, h)
		}
	}
	if _, ok := parseHeader(make([]byte, 12), true); ok {
		t.Error("12 bytes hold a 64-bit number")
	}
}

func TestHellos(t *testing.T) {
	for word, reply := range hellos {
		if !isHello(word[:]) || !isReply(reply[:]) {
			t.Errorf("%v, %v", word, reply)
		}
		if isHello(reply[:]) {
			t.Error("a reply is taken for a hello: two servers would answer each other")
		}
	}
	if isHello([]byte("9876x")) || isHello(nil) {
		t.Error("another length is a hello")
	}
}

func FuzzParams(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x8f" + recordedParams))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p params
		if readMessage(bytes.NewReader(b), maxParams, &p) != nil || p.check() != nil {
			return
		}
		if n := p.streams(); n < 1 || n > 2*MaxStreams {
			t.Errorf("%d streams", n)
		}
		if p.Len < 1 || p.Len > maxBlock || p.length() < 0 || p.length() > 24*time.Hour || p.omit() < 0 {
			t.Errorf("accepted %+v", p)
		}
	})
}

func FuzzResults(f *testing.F) {
	f.Add([]byte(recordedResults), 1)
	f.Fuzz(func(t *testing.T, b []byte, streams int) {
		var r results
		if streams < 1 || streams > 2*MaxStreams || json.Unmarshal(b, &r) != nil {
			return
		}
		sorted, err := r.check(streams)
		if err != nil {
			return
		}
		for i, s := range sorted {
			if int(s.ID) != streamID(i) || s.Bytes < 0 || int64(s.Bytes) < 0 || s.seconds() < 0 {
				t.Errorf("stream %d: %+v", i, s)
			}
		}
	})
}

func FuzzDatagram(f *testing.F) {
	f.Add([]byte("9876"), true)
	f.Add(make([]byte, 16), false)
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		isHello(b)
		a := arrivals{first: true}
		for len(b) > 0 {
			if h, ok := parseHeader(b, wide); ok {
				a.arrive(h, time.Second)
			}
			b = b[1:]
		}
		if a.lost < 0 || a.lost > a.highest || a.outOfOrder < 0 || a.highest < 0 || math.IsNaN(a.jitter) || a.jitter < 0 {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzCookie(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 36) + "\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseCookie(b); err == nil && (c[36] != 0 || !BeginsCookie(c[0])) {
			t.Errorf("%q", b)
		}
	})
}
