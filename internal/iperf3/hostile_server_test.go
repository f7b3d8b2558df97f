package iperf3

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// badServer speaks iperf3's protocol to one client, but for its results, which lie
// changes, and for the state in place of which it sends other bytes. It lives as long
// as the test.
type badServer struct {
	lie     func(results map[string]any)
	instead map[state][]byte

	ln     net.Listener
	udp    *net.UDPConn
	wg     sync.WaitGroup
	mu     sync.Mutex
	opened []io.Closer
}

func (b *badServer) start(t testing.TB) netip.AddrPort {
	t.Helper()
	var err error
	for range 100 { // a port that is free for both
		if b.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if b.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(b.ln.Addr().(*net.TCPAddr).AddrPort())); err == nil {
			break
		}
		_ = b.ln.Close()
	}
	testutil.OK(t, err)
	b.opened = []io.Closer{b.ln, b.udp}
	b.wg.Go(func() {
		c, err := b.accept()
		if err == nil {
			err = b.serve(c)
		}
		if err != nil {
			t.Logf("bad server: %v", err) // its client may have left
		}
	})
	t.Cleanup(func() {
		b.mu.Lock()
		for _, c := range b.opened {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.wg.Wait()
	})
	return b.ln.Addr().(*net.TCPAddr).AddrPort()
}

func (b *badServer) accept() (net.Conn, error) {
	c, err := b.ln.Accept()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.opened = append(b.opened, c)
	b.mu.Unlock()
	_, err = io.ReadFull(c, make([]byte, cookieBytes))
	return c, err
}

func (b *badServer) say(c net.Conn, s state) error {
	if other, ok := b.instead[s]; ok {
		_, err := c.Write(other)
		return err
	}
	return writeState(c, s)
}

func (b *badServer) serve(c net.Conn) error {
	if err := b.say(c, paramExchange); err != nil {
		return err
	}
	var p params
	if err := readMessage(c, maxParams, &p); err != nil {
		return err
	}
	if err := b.say(c, createStreams); err != nil {
		return err
	}
	streams := make([]any, p.streams())
	for i := range streams {
		streams[i] = map[string]any{
			"id": streamID(i), "bytes": 1000, "retransmits": -1, "jitter": 1e-5, "errors": 0, "packets": 1,
			"omitted_errors": 0, "omitted_packets": 0, "start_time": 0, "end_time": p.Time,
		}
		if p.UDP {
			if err := b.greet(); err != nil {
				return err
			}
			continue
		}
		s, err := b.accept()
		if err != nil {
			return err
		}
		if p.Reverse {
			b.wg.Go(func() { _, _ = s.Write(make([]byte, 1000)) })
		} else {
			b.wg.Go(func() { _, _ = io.Copy(io.Discard, s) })
		}
	}
	for _, s := range []state{testStart, testRunning} {
		if err := b.say(c, s); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // TEST_END
		return err
	}
	if err := b.say(c, exchangeResults); err != nil {
		return err
	}
	var theirs results
	if err := readMessage(c, maxResults(len(streams)), &theirs); err != nil {
		return err
	}
	ours := map[string]any{"cpu_util_total": 5.0, "sender_has_retransmits": 0, "congestion_used": "cubic", "streams": streams}
	if b.lie != nil {
		b.lie(ours)
	}
	if err := writeMessage(c, ours); err != nil {
		return err
	}
	if err := b.say(c, displayResults); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, c) // until the client leaves
	return nil
}

// greet answers the first datagram of a stream; the others are not read.
func (b *badServer) greet() error {
	var in [1 << 16]byte
	for {
		n, from, err := b.udp.ReadFromUDPAddrPort(in[:])
		if err != nil {
			return err
		}
		if n == 4 {
			reply := hellos[[4]byte(in[:4])]
			_, err := b.udp.WriteToUDPAddrPort(reply[:], from)
			return err
		}
	}
}

// ofStream changes one value in the results of the first stream.
func ofStream(key string, value any) func(map[string]any) {
	return func(r map[string]any) { r["streams"].([]any)[0].(map[string]any)[key] = value }
}

func of(key string, value any) func(map[string]any) {
	return func(r map[string]any) { r[key] = value }
}

const forged = "\x1b]0;owned\x07\x1b[2J\r\n09:00:00 10.0.0.1: done\u202e\u0085"

// showable says whether a text may reach a terminal.
func showable(text string) bool {
	return len(text) < 3000 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Whatever an iperf3 server says, a test ends with an error that can be shown, or with
// results that can be.
func TestServersThatLie(t *testing.T) {
	send := Request{Direction: measurement.Send}
	receive := Request{Direction: measurement.Receive}
	udp := Request{Direction: measurement.Send, UDP: true, Rate: 1e6}
	long := strings.Repeat(forged, 1000)
	var all sync.WaitGroup // at once: each takes a second
	defer all.Wait()
	for name, c := range map[string]struct {
		req     Request
		lie     func(map[string]any)
		instead map[state][]byte
		good    bool
	}{
		"an honest one":             {req: send, good: true},
		"back":                      {req: receive, good: true},
		"datagrams":                 {req: udp, good: true},
		"more than was sent":        {req: send, lie: ofStream("bytes", 1e17)},
		"less than came":            {req: receive, lie: ofStream("bytes", 10)},
		"less than nothing":         {req: send, lie: ofStream("bytes", -1)},
		"beyond all":                {req: send, lie: ofStream("bytes", 1e308)},
		"in no time":                {req: send, lie: ofStream("end_time", 1e-300)},
		"for ages":                  {req: send, lie: ofStream("end_time", 1e17)},
		"before the start":          {req: send, lie: ofStream("start_time", -1e17)},
		"a clock that runs back":    {req: send, lie: ofStream("end_time", -1), good: true}, // as one that does not say
		"another stream":            {req: send, lie: ofStream("id", 7)},
		"no stream at all":          {req: send, lie: of("streams", []any{})},
		"copies of datagrams":       {req: udp, lie: ofStream("bytes", 200_000), good: true},
		"more copies than a path":   {req: udp, lie: ofStream("bytes", 1e9)},
		"packets beyond those sent": {req: udp, lie: ofStream("packets", 1e9)},
		"more lost than came":       {req: udp, lie: ofStream("errors", 1e12)},
		"less than none lost":       {req: udp, lie: ofStream("errors", -1e12)},
		"more omitted than sent":    {req: udp, lie: ofStream("omitted_packets", 1e12)},
		"jitter of weeks":           {req: udp, lie: ofStream("jitter", 2e6)},
		"jitter of years":           {req: udp, lie: ofStream("jitter", 1e300)},
		"a processor beyond all":    {req: send, lie: of("cpu_util_total", 1e308)},
		"one that gives back":       {req: send, lie: of("cpu_util_total", -1)},
		"a name with escapes":       {req: send, lie: of("congestion_used", forged), good: true},
		"a long one":                {req: receive, lie: of("congestion_used", long), good: true},
		"a text for a number":       {req: send, lie: of("cpu_util_total", long[:1000])},
		"a long number":             {req: send, lie: of("sender_has_retransmits", json.Number(strings.Repeat("9", 10_000)))},
		"another state":             {req: send, instead: map[state][]byte{exchangeResults: {77}}},
		"no parameters":             {req: send, instead: map[state][]byte{paramExchange: []byte(forged)}},
		"an unknown error":          {req: send, instead: map[state][]byte{createStreams: append([]byte{0xfe}, bytes.Repeat([]byte{0xff}, 8)...)}},
		"an error in the results":   {req: send, instead: map[state][]byte{exchangeResults: append([]byte{0xfe}, binary.BigEndian.AppendUint64(nil, 1<<63|5)...)}},
		"it begins at the end":      {req: send, instead: map[state][]byte{testRunning: {byte(displayResults)}}},
	} {
		all.Go(func() {
			server := &badServer{lie: c.lie, instead: c.instead}
			c.req.Target, c.req.Streams, c.req.Seconds, c.req.BinWidth = server.start(t), 1, 1, 10*time.Millisecond
			r, err := Run(t.Context(), c.req, func(measurement.Progress) {})
			switch {
			case (err == nil) != c.good:
				t.Errorf("%s: %+v, %v", name, r, err)
			case err != nil && !showable(err.Error()):
				t.Errorf("%s: %.200q", name, err)
			case err == nil && !(showable(r.Congestion) && showable(r.ServerCongestion)):
				t.Errorf("%s: %.100q and %.100q", name, r.Congestion, r.ServerCongestion)
			}
			for _, s := range r.Streams {
				if s.Received > s.Sent || s.Received < 0 || !(s.ReceivedSeconds >= leastPart) || s.Packets < 0 || s.Lost > s.Packets {
					t.Errorf("%s: %+v", name, s)
				}
			}
		})
	}
}

// What is no iperf3 server is told before there is anything to wait for, and why.
func TestNoServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(net.Conn)
		cause  error
	}{
		"a silent program": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, os.ErrDeadlineExceeded},
		"one that leaves":  {func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, cookieBytes)) }, io.EOF},
		"a web server":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := Request{Target: testutil.Listen(t, c.answer), Direction: measurement.Send, Streams: 1, Seconds: 1, BinWidth: 10 * time.Millisecond}
			if _, err := Run(t.Context(), req, func(measurement.Progress) {}); !errors.Is(err, ErrNoServer) || !errors.Is(err, c.cause) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A server before 3.7 begins when it has the streams of the client's direction, and refuses the
// others as it does another client. The path is not to blame.
func TestBothDirectionsOfAnOldServer(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	complete := make(chan struct{})
	target := testutil.Listen(t, func(conn net.Conn) {
		switch connections.Add(1) {
		case 1:
			_, _ = io.ReadFull(conn, make([]byte, cookieBytes))
			_ = writeState(conn, paramExchange)
			var p params
			_ = readMessage(conn, maxParams, &p)
			_ = writeState(conn, createStreams)
			<-complete
			_ = writeState(conn, testStart)
			_ = writeState(conn, testRunning)
			_, _ = io.Copy(io.Discard, conn)
		case 2:
			close(complete)
			_, _ = io.Copy(io.Discard, conn)
		default:
			_ = writeState(conn, accessDenied) // and what came unread resets the connection
		}
	})
	_, err := Run(t.Context(), Request{Target: target, Direction: measurement.Both, Streams: 1, Seconds: 20}, func(measurement.Progress) {})
	if !errors.Is(err, ErrOneWay) {
		t.Error(err)
	}
}

// A refusal is known by its code alone: not every one is followed by the system's error,
// which says nothing of a limit.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		reason        []byte
		limit, denied bool
		text          string
	}{
		"of who proves nothing": {reason: []byte{0, 0, 0, 142}, denied: true, text: "demands authorization"},
		"of a rate":             {reason: []byte{0, 0, 0, 27, 0, 0, 0, 9}, limit: true, text: "ask for a lower one$"},
		"of a buffer":           {reason: []byte{0, 0, 0, 141, 0, 0, 0, 104}, text: "(net.core.rmem_max, wmem_max)$"},
		"of an algorithm":       {reason: []byte{0, 0, 0, 134, 0, 0, 0, 2}, text: "(its system said no such file or directory)"},
	} {
		target := testutil.Listen(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, cookieBytes))
			_ = writeState(conn, paramExchange)
			var p params
			_ = readMessage(conn, maxParams, &p)
			_ = writeState(conn, serverError)
			_, _ = conn.Write(c.reason)
		})
		_, err := Run(t.Context(), Request{Target: target, Direction: measurement.Send, Streams: 1, Seconds: 1}, func(measurement.Progress) {})
		remote, ok := errors.AsType[*RemoteError](err)
		if !ok || remote.Limit() != c.limit || remote.Unauthorized() != c.denied || !strings.Contains(remote.Error()+"$", c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that gives up on a test when that is over has not heard of its end: the path is silent,
// and no limit too low.
func TestEndUnheard(t *testing.T) {
	t.Parallel() // it waits for the end of the test
	failed := serverError
	for _, c := range []code{codeDuration, codeExpired} {
		b := &badServer{instead: map[state][]byte{exchangeResults: {byte(failed), 0, 0, 0, byte(c), 0, 0, 0, 0}}}
		_, err := Run(t.Context(), Request{Target: b.start(t), Direction: measurement.Send, Streams: 1, Seconds: 1}, func(measurement.Progress) {})
		if _, refused := errors.AsType[*RemoteError](err); refused || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %d: %v", c, err)
		}
	}
}

// What is believed of any results makes finite figures.
func FuzzBelieve(f *testing.F) {
	f.Add([]byte(`{"cpu_util_total":5,"streams":[{"id":1,"bytes":1000,"retransmits":-1,"jitter":0.1,"errors":0,"packets":1,"start_time":0,"end_time":1}]}`), true, true)
	f.Fuzz(func(t *testing.T, text []byte, udp, sends bool) {
		message := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
		var theirs results
		if err := readMessage(bytes.NewReader(message), maxParams, &theirs); err != nil {
			if len(text) > 0 && (!errors.Is(err, ErrMalformed) || !showable(err.Error())) {
				t.Errorf("%q", err)
			}
			return
		}
		far, err := theirs.check(1)
		if err != nil {
			return
		}
		client := &client{transfer: &transfer{udp: udp, until: time.Second}}
		s := newStream(client.transfer, nil, 0, sends)
		s.bytes.Store(5000)
		s.packets, client.streams = 5, []*stream{s}
		if client.believe(theirs, far) != nil {
			return
		}
		for _, v := range []float64{theirs.CPUTotal, far[0].Bytes, far[0].Packets, far[0].Lost, far[0].Jitter} {
			if math.IsNaN(v) || math.Abs(v) > 1e18 {
				t.Errorf("%v in %s", v, text)
			}
		}
		if rate := far[0].Bytes * 8 / max(far[0].seconds(), leastPart); sends && rate > 5000*8/leastPart*1.001 {
			t.Errorf("%v bit/s", rate)
		}
		if !showable(theirs.Congestion) {
			t.Errorf("%q", theirs.Congestion)
		}
	})
}
