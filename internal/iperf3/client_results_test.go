package iperf3

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A path that makes copies of datagrams makes no server a liar, and nothing faster.
func TestCopiesOfDatagrams(t *testing.T) {
	const packets, twice, size = 1000, 500, 1000
	for name, c := range map[string]struct{ sends, omits, old bool }{
		"sent": {sends: true}, "sent after an omitted start": {sends: true, omits: true}, "received": {}, "received from a server that tells no times": {old: true}, "received after an omitted start": {omits: true},
		"sent to a server that tells nothing of the omitted start": {sends: true, omits: true, old: true},
	} {
		socket, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
		testutil.OK(t, err)
		conn, err := sockets.DetachUDP(socket)
		testutil.OK(t, err)
		defer func() { _ = conn.Close() }()
		test := &client{transfer: &transfer{udp: true, block: size, until: 2 * time.Second}}
		if c.omits {
			test.omit = time.Second
		}
		sender, receiver := newStream(test.transfer, conn, 0, true), newStream(test.transfer, conn, 0, false)
		transfer := func() {
			for i := range packets {
				sender.bytes.Add(size)
				sender.packets++
				copies := 1
				if i%(packets/twice) == 0 {
					copies = 2
				}
				for range copies {
					receiver.bytes.Add(size)
					receiver.arrivals.arrive(header{number: uint64(sender.packets)}, 0)
				}
			}
		}
		if c.omits {
			transfer()
			sender.passOmit()
			receiver.passOmit()
		}
		transfer()
		near, far := sender, receiver
		if !c.sends {
			near, far = receiver, sender
		}
		test.streams, test.ends, test.infos = []*stream{near}, make([]endpoints, 1), append(test.infos, nil)
		theirs := []streamResult{far.result(test.until, 0)}
		if c.old {
			theirs[0].OmittedPackets, theirs[0].OmittedLost, theirs[0].Start, theirs[0].End = nil, nil, nil, nil
		}
		if err := test.believe(results{}, theirs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r := test.result(results{Streams: []streamResult{near.result(test.until, 0)}}, results{}, theirs)
		if got := r.Streams[0]; got.Received != packets*size || got.Sent != packets*size || got.Packets != packets || got.Lost != 0 ||
			got.SentSeconds != r.Took.Seconds() || got.ReceivedSeconds != r.Took.Seconds() {
			t.Errorf("%s: %+v", name, got)
		}
		if facts := strings.Join(r.Facts, "; "); !strings.Contains(facts, "at least 500 packets that arrived were copies") {
			t.Errorf("%s: %q", name, facts)
		}
	}
}

// A server before 3.14 counts what was lost in the omitted start, too: its loss is that of all
// datagrams.
func TestLossOfAnOldServer(t *testing.T) {
	test := &client{transfer: &transfer{udp: true, block: 1000, omit: time.Second, until: 3 * time.Second}}
	sender := newStream(test.transfer, nil, 0, true)
	sender.packets, sender.omitPacket = 3000, 1000
	for _, lost := range []float64{0, 150, 3000} {
		var r StreamResult
		test.addPackets(&r, sender, streamResult{Packets: 3000, Lost: lost})
		if r.Packets != 2000 || float64(r.Lost)/2000 != lost/3000 {
			t.Errorf("of 3000 packets, 1000 of them omitted, %v were lost: %+v", lost, r)
		}
	}
}

// What a path loses up to the end of a test leaves no gap in the numbers, and is lost all the same.
// What is on its way when the test ends is not.
func TestLossUpToTheEnd(t *testing.T) {
	const sent, omitted, second = 3000, 1000, time.Second // 1000 a second
	for name, c := range map[string]struct {
		sends   bool
		highest int64
		last    time.Duration // when it came
		packets int64         // after the omitted start, as lost
		lost    int64
	}{
		"sent":                       {true, 2500, 0, 2000, 500},
		"sent, some on the way":      {true, 2800, 0, 1800, 0},
		"sent, none after the start": {true, omitted, 0, 2000, 2000},
		"received":                   {false, 2500, 2500 * time.Millisecond, 2000, 500},
		"received from far away":     {false, 2500, 2990 * time.Millisecond, 1500, 0},
	} {
		test := &client{transfer: &transfer{udp: true, block: 1000, omit: second, until: 3 * second}}
		s := newStream(test.transfer, nil, 0, c.sends)
		s.packets, s.omitPacket = sent, omitted
		s.last.Store(int64(c.last))
		r := StreamResult{Packets: c.highest - omitted}
		ended := test.addEnd(&r, s, sent, c.highest)
		if r.Packets != c.packets || r.Lost != c.lost || ended != c.lost {
			t.Errorf("%s: %d of %d packets lost, %d said, want %d of %d", name, r.Lost, r.Packets, ended, c.lost, c.packets)
		}
	}
}
