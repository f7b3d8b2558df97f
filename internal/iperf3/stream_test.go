package iperf3

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// pair is a connection of which both ends are detached.
func pair(t *testing.T, udp bool) (near, far *sockets.Conn) {
	t.Helper()
	if udp {
		a, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		testutil.OK(t, err)
		b, err := net.DialUDP("udp4", nil, a.LocalAddr().(*net.UDPAddr))
		testutil.OK(t, err)
		return detached(t, b), detached(t, a)
	}
	a, b := accepted(t)
	return detached(t, a), detached(t, b)
}

func detached(t *testing.T, c net.Conn) *sockets.Conn {
	t.Helper()
	var conn *sockets.Conn
	var err error
	switch c := c.(type) {
	case *net.UDPConn:
		conn, err = sockets.DetachUDP(c)
	case *net.TCPConn:
		conn, err = sockets.Detach(c)
	}
	testutil.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// transferOf runs one stream from near to far.
func transferOf(t *testing.T, tr *transfer) (sender, receiver *stream) {
	t.Helper()
	near, far := pair(t, tr.udp)
	tr.payload, tr.failed, tr.start = sockets.NewPayload(), make(chan error, 2), time.Now()
	sender, receiver = newStream(tr, near, 0, true), newStream(tr, far, 0, false)
	receiver.width, receiver.bins = 10*time.Millisecond, make([]int64, 1000)
	receiver.launch()
	sender.launch()
	t.Cleanup(func() { tr.end([]*stream{sender, receiver}) })
	return sender, receiver
}

// until waits for a stream to have moved so many bytes.
func until(t *testing.T, s *stream, bytes int64) {
	t.Helper()
	select {
	case <-s.await(bytes):
	case err := <-s.failed:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatalf("%d bytes of %d", s.bytes.Load(), bytes)
	}
}

// No loop allocates, paced or not: what is allocated between two counts is the
// test's own.
func TestLoopsDoNotAllocate(t *testing.T) {
	for name, tr := range map[string]*transfer{
		"tcp":       {block: defaultBlock},
		"tcp paced": {block: 4096, rate: 400e6},
		"udp":       {udp: true, wide: true, block: 1400},
		"udp paced": {udp: true, block: 1400, rate: 400e6, burst: 10},
	} {
		t.Run(name, func(t *testing.T) {
			sender, receiver := transferOf(t, tr)
			until(t, receiver, 1<<20)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			calls := int64(2000)
			for first := sender.bytes.Load(); sender.bytes.Load() < first+calls*int64(tr.block); {
				runtime.Gosched()
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > uint64(calls)/10 {
				t.Errorf("%d allocations in %d calls", n, calls)
			}
		})
	}
}

// A sender with a budget sends whole blocks until the budget is used up, and no
// further one.
func TestBudget(t *testing.T) {
	tr := &transfer{block: 1000, budget: 10_500}
	sender, receiver := transferOf(t, tr)
	until(t, receiver, 11_000)
	tr.end([]*stream{sender, receiver})
	if sender.bytes.Load() != 11_000 || receiver.bytes.Load() != 11_000 {
		t.Errorf("sent %d, received %d", sender.bytes.Load(), receiver.bytes.Load())
	}
}

// The omitted start is in no result but in the counters that iperf3 leaves it in.
func TestOmit(t *testing.T) {
	s := newStream(&transfer{udp: true, omit: time.Second}, nil, 0, false)
	for i, at := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		s.count(100, at)
		s.arrivals.arrive(header{number: uint64(2 * (i + 1)), sent: at}, at)
	}
	r := s.result(2*time.Second, 0)
	if r.Bytes != 200 || r.Packets != 8 || *r.OmittedPackets != 4 || r.Lost != 4 || *r.OmittedLost != 2 || r.seconds() != 1 {
		t.Errorf("%+v, omitted %v and %v", r, *r.OmittedPackets, *r.OmittedLost)
	}
	early := newStream(&transfer{omit: time.Second}, nil, 0, true)
	early.count(100, 0)
	if r := early.result(500*time.Millisecond, 0); r.Bytes != 0 || r.seconds() != 0 {
		t.Errorf("a test that ended in the omitted start: %+v", r)
	}
	idle := newStream(&transfer{omit: time.Second}, nil, 0, false)
	idle.count(100, 0)
	if r := idle.result(2*time.Second, 0); r.Bytes != 0 || r.seconds() != 1 {
		t.Errorf("a stream that was idle after the omitted start: %+v", r)
	}
}

// Datagrams are dated by the clock by which the client's iperf3 dates their arrival.
func TestDatesOfDatagrams(t *testing.T) {
	at := time.Unix(1_700_000_000, 5000)
	for version, day := range map[string]bool{"": true, "3.1.3": true, "3.6": true, "3.7": false, "3.21+": false} {
		clock := params{ClientVersion: version}.clock(at)
		if (clock == time.Duration(at.UnixNano())) != day {
			t.Errorf("iperf3 %q: datagrams are dated from %v on", version, clock)
		}
		near, far := pair(t, true)
		tr := &transfer{udp: true, block: 100, rate: 1e6, clock: clock, start: time.Now(), failed: make(chan error, 1)}
		sender := newStream(tr, near, 0, true)
		sender.launch()
		packet := make([]byte, maxDatagram)
		n, err := 0, sockets.ErrTick
		for errors.Is(err, sockets.ErrTick) {
			n, err = far.Discard(packet)
		}
		tr.end([]*stream{sender})
		testutil.OK(t, err)
		if h, ok := parseHeader(packet[:n], false); !ok || h.number != 1 || h.sent < clock.Truncate(time.Microsecond) {
			t.Errorf("iperf3 %q: the first datagram is %+v, sent after %v", version, h, clock)
		}
	}
}

// A sender keeps its rate on average; at a server that bounds the rate it does not catch up
// with all that was held up.
func TestArrears(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		s := &stream{transfer: &transfer{rate: 8e6, bounded: bounded}}
		sendUntil := func(now time.Duration) (sent int64) {
			for s.dueAfter(now) <= 0 {
				s.bytes.Add(1000)
				sent += 1000
			}
			return sent
		}
		if got := sendUntil(50 * time.Millisecond); got != 51_000 {
			t.Errorf("bounded %v: %d bytes in the first 50 ms", bounded, got)
		}
		want := map[bool]int64{false: 10_000_000, true: 101_000}[bounded]
		if got := sendUntil(10*time.Second + 50*time.Millisecond); got != want {
			t.Errorf("bounded %v: %d bytes at once after 10 s, want %d", bounded, got, want)
		}
		if got := sendUntil(10*time.Second + 100*time.Millisecond); got != 50_000 {
			t.Errorf("bounded %v: %d bytes in the 50 ms after that", bounded, got)
		}
	}
}
