package udp

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/protocol"
)

// sentByReference is what the sender writes at the start of a packet of large
// buffers.
func sentByReference(sequence uint64, packets int, phase byte, sentAt int64) []byte {
	cookie := make([]byte, protocol.CookieBytes)
	b := make([]byte, datagram.DataBytes)
	index := sequence % uint64(packets)
	if index == 0 {
		copy(b, cookie)
		putData(b, phase, sequence, sentAt)
		return b
	}
	lap := uint64(packets * lapBuffers)
	putFollower(b, cookie, follower{phase: min(phase, phaseMeasured), lap: uint32(lap), place: uint32(sequence % lap), index: uint32(index)})
	return b
}

// Whatever a network that cuts large buffers does to the packets of buffers sent by
// reference, they are counted as if each said its number, laps lost as a whole
// included, or packets out of order.
func TestFollowersAreCountedAsIfNumbered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packets := rapid.IntRange(2, 64).Draw(t, "packets of a buffer")
		lap := packets * lapBuffers
		// What arrives: runs, between which some are lost, in a few of which
		// packets change places or come twice.
		var order []uint64
		disorder := rapid.Bool().Draw(t, "disorder")
		next, longest := uint64(rapid.IntRange(0, 3*lap).Draw(t, "first")), 4*lap
		for range rapid.IntRange(1, 12).Draw(t, "runs") {
			// What waits for a leader when laps are lost may find itself in another one,
			// so before that a leader comes.
			long := !disorder && rapid.IntRange(0, 3).Draw(t, "long") == 0
			n := rapid.IntRange(1, 3*packets).Draw(t, "arrive")
			if long {
				n += packets
			}
			for range n {
				order = append(order, next)
				next++
			}
			if disorder && rapid.Bool().Draw(t, "here") {
				i := len(order) - rapid.IntRange(1, n).Draw(t, "which")
				j := max(i-rapid.IntRange(0, 2*packets).Draw(t, "how far"), 0)
				if order[i]-order[j] < uint64(lap/16) {
					order[i], order[j] = order[j], order[i]
				}
			}
			lost := rapid.IntRange(0, 5).Draw(t, "lost")
			if long {
				lost = rapid.IntRange(0, longest).Draw(t, "lost")
			}
			next += uint64(lost)
		}
		for range 2 * packets { // the last have a leader, too
			order = append(order, next)
			next++
		}
		r := &receiver{cookie: make([]byte, protocol.CookieBytes), width: time.Second, bytes: make([]int64, 1), packets: make([]int64, 1)}
		want := new(packetCount)
		var sum arrivals
		for _, sequence := range order {
			phase := byte(phaseWarmup)
			if sequence/uint64(packets) >= 2 {
				phase = phaseMeasured
			}
			r.packet(&sum, sentByReference(sequence, packets, phase, int64(sequence)+1), 1000, 0)
			want.arrive(sequence, phase == phaseMeasured)
		}
		r.add(sum, 0)
		r.settleLast()
		if got := &r.count; got.received != want.received || got.duplicated != 0 || !disorder && got.reordered != 0 {
			t.Fatalf("%d received, %d twice and %d late of %d that came in the order %d", got.received, got.duplicated, got.reordered, want.received, order)
		}
		if r.packets[0] != int64(len(order)) {
			t.Fatalf("%d of %d counted", r.packets[0], len(order))
		}
	})
}

// Of packets that arrive in order none is late or a copy, however many of them are lost: those
// of several laps may wait for one leader then.
func TestFollowersStayInOrderWhenMostAreLost(t *testing.T) {
	const packets, sent = 44, 500_000
	for _, loss := range []float64{0.5, 0.9, 0.95, 0.97, 0.99} {
		rng := rand.New(rand.NewPCG(1, 2))
		r := &receiver{cookie: make([]byte, protocol.CookieBytes), width: time.Second, bytes: make([]int64, 1), packets: make([]int64, 1)}
		var sum arrivals
		came := int64(0)
		for sequence := range uint64(sent) {
			if rng.Float64() >= loss {
				came++
				r.packet(&sum, sentByReference(sequence, packets, phaseMeasured, int64(sequence)+1), 1000, 0)
			}
		}
		r.settleLast()
		if c := &r.count; c.received != came || c.duplicated != 0 || c.reordered != 0 {
			t.Errorf("loss %v: %d received, %d twice and %d late of %d", loss, c.received, c.duplicated, c.reordered, came)
		}
	}
}

// What comes later than whole laps, of a network that cuts large buffers, is neither lost nor a
// copy because of it, and a copy is no other packet.
func TestLateFollowersAndCopies(t *testing.T) {
	const packets, sent, tolerance = 44, 100_000, 0.005 * 100_000
	for _, c := range []struct{ loss, copies, copyLate, late, lateBy, jitter float64 }{ // times in packets sent
		{copies: 0.1, copyLate: 0.5},
		{copies: 0.1, copyLate: 100.5, loss: 0.01},
		{copies: 0.1, copyLate: 10_000.5},
		{copies: 0.1, copyLate: 10_000.5, loss: 0.01},
		{copies: 0.01, copyLate: 50_000.5},
		{late: 0.05, lateBy: 100.5, loss: 0.01},
		{late: 0.05, lateBy: 10_000.5},
		{jitter: 100},
		{jitter: 500},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		type arrival struct {
			at       float64
			sequence uint64
		}
		var all []arrival
		for s := range uint64(sent) {
			at := float64(s) + rng.Float64()*c.jitter
			if rng.Float64() < c.copies {
				all = append(all, arrival{at + c.copyLate, s})
			}
			if rng.Float64() < c.late {
				at += c.lateBy
			}
			if rng.Float64() >= c.loss {
				all = append(all, arrival{at, s})
			}
		}
		slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		r := &receiver{cookie: make([]byte, protocol.CookieBytes), width: time.Second, bytes: make([]int64, 1), packets: make([]int64, 1)}
		want, got := new(packetCount), &r.count
		var sum arrivals
		for _, a := range all {
			r.packet(&sum, sentByReference(a.sequence, packets, phaseMeasured, int64(a.sequence)+1), 1000, 0)
			want.arrive(a.sequence, true)
		}
		r.settleLast()
		for _, n := range [][2]int64{{got.received, want.received}, {got.duplicated, want.duplicated}, {got.reordered, want.reordered}} {
			if math.Abs(float64(n[0]-n[1])) > tolerance {
				t.Errorf("%+v: %d received, %d twice and %d late, want %d, %d and %d", c, got.received, got.duplicated, got.reordered, want.received, want.duplicated, want.reordered)
				break
			}
		}
	}
}
