package udp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// count takes sequence numbers in their order of arrival.
func count(sequences []uint64, measured func(uint64) bool) *packetCount {
	c := new(packetCount)
	for _, s := range sequences {
		c.arrive(s, measured(s))
	}
	return c
}

func all(uint64) bool { return true }

func TestPacketCount(t *testing.T) {
	upTo := func(n uint64) (s []uint64) {
		for i := range n {
			s = append(s, i)
		}
		return s
	}
	for _, c := range []struct {
		name                                  string
		sequences                             []uint64
		sent                                  int64
		received, lost, duplicated, reordered int64
	}{
		{"all", upTo(10), 10, 10, 0, 0, 0},
		{"none", nil, 10, 0, 10, 0, 0},
		{"the first lost", []uint64{1, 2}, 3, 2, 1, 0, 0},
		{"the end lost", upTo(10), 15, 10, 5, 0, 0},
		{"two swapped", []uint64{0, 2, 1, 3}, 4, 4, 0, 0, 1},
		{"one three late", []uint64{0, 2, 3, 4, 1}, 5, 5, 0, 0, 1},
		{"the other way round", []uint64{3, 2, 1, 0}, 4, 4, 0, 0, 3},
		{"one twice", []uint64{0, 1, 1, 2}, 3, 3, 0, 1, 0},
		{"a late one twice", []uint64{1, 0, 0}, 2, 2, 0, 1, 1},
		{"a gap of a whole window", []uint64{0, seenWindow + 5, seenWindow + 5, 6}, seenWindow + 6, 3, seenWindow + 3, 1, 1},
		{"older than the window", []uint64{seenWindow + 1, 0, 0}, seenWindow + 2, 3, seenWindow - 1, 0, 2},
		{"largest number", []uint64{math.MaxUint64 - 1}, 1, 1, 0, 0, 0},
	} {
		got := count(c.sequences, all)
		if got.received != c.received || max(c.sent-got.received, 0) != c.lost || got.duplicated != c.duplicated || got.reordered != c.reordered {
			t.Errorf("%s: received %d lost %d duplicated %d reordered %d, want %d, %d, %d, %d", c.name,
				got.received, max(c.sent-got.received, 0), got.duplicated, got.reordered, c.received, c.lost, c.duplicated, c.reordered)
		}
	}
}

// Whatever a path does within the window, the count is that of a plain
// reckoning with all numbers kept.
func TestPacketCountMatchesTheReckoning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.IntRange(1, 3000).Draw(t, "sent")
		from := rapid.Uint64Range(0, 4*seenWindow).Draw(t, "from")
		begin, end := rapid.IntRange(0, sent).Draw(t, "begin"), rapid.IntRange(0, sent).Draw(t, "end")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		type packet struct {
			sequence uint64
			at       float64
		}
		var packets []packet
		loss, copies, late := rng.Float64()*0.5, rng.Float64()*0.3, rng.Float64()*50
		for i := range sent {
			if rng.Float64() < loss {
				continue
			}
			packets = append(packets, packet{from + uint64(i), float64(i) + rng.Float64()*late})
			if rng.Float64() < copies {
				packets = append(packets, packet{from + uint64(i), float64(i) + rng.Float64()*late})
			}
		}
		slices.SortStableFunc(packets, func(a, b packet) int {
			if a.at < b.at {
				return -1
			}
			return 1
		})
		measured := func(s uint64) bool { return int(s-from) >= begin && int(s-from) < end }
		var sequences []uint64
		var received, duplicated, reordered int64
		seen, next := map[uint64]bool{}, uint64(0)
		for _, p := range packets {
			sequences = append(sequences, p.sequence)
			m := measured(p.sequence)
			switch {
			case seen[p.sequence]:
				if m {
					duplicated++
				}
				continue
			case p.sequence < next && m:
				reordered++
			}
			if m {
				received++
			}
			seen[p.sequence], next = true, max(next, p.sequence+1)
		}
		got := count(sequences, measured)
		if got.received != received || got.duplicated != duplicated || got.reordered != reordered {
			t.Fatalf("received %d duplicated %d reordered %d, want %d, %d, %d", got.received, got.duplicated, got.reordered, received, duplicated, reordered)
		}
		if want := int64(max(end-begin, 0)) - received; max(int64(max(end-begin, 0))-got.received, 0) != want {
			t.Fatalf("lost %d, want %d", max(int64(max(end-begin, 0))-got.received, 0), want)
		}
	})
}

// The quantile of the delay variation is that of the sorted delays, wherever
// the first packet's delay lay among them and whatever the clocks' offset.
func TestDelayVariationMatchesTheSortedDelays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1e9), 1, 2000).Draw(t, "delays")
		offset := rapid.Int64Range(-1e15, 1e15).Draw(t, "offset")
		quantile := rapid.Float64Range(0, 1).Draw(t, "quantile")
		var d delays
		for _, v := range values {
			d.add(v+offset, 1)
		}
		first := values[0]
		slices.Sort(values)
		want := values[max(int(math.Ceil(quantile*float64(len(values)))), 1)-1]
		got := d.variation(quantile).Nanoseconds()
		if tolerance := math.Abs(float64(want-first))/100 + 1; math.Abs(float64(got-(want-values[0]))) > tolerance {
			t.Fatalf("quantile %v: %d, want %d", quantile, got, want-values[0])
		}
	})
}

func TestJitterIsThatOfRFC3550(t *testing.T) {
	// The reference is Appendix A.8's own formula, packet by packet.
	rng := rand.New(rand.NewPCG(1, 2))
	var d delays
	var jitter float64
	var last int64
	for i := range 5000 {
		delay, n := int64(rng.NormFloat64()*1e5)+7e12, int64(1+rng.IntN(4))
		d.add(delay, n)
		for range n {
			if i > 0 || last != 0 {
				jitter += (math.Abs(float64(delay-last)) - jitter) / 16
			}
			last = delay
		}
	}
	if math.Abs(d.jitter-jitter) > 1e-6*jitter || jitter == 0 {
		t.Errorf("jitter %v ns, want %v ns", d.jitter, jitter)
	}
}

func TestHistogramBuckets(t *testing.T) {
	for _, v := range []uint64{0, 1, 2, 127, 128, 129, 255, 256, 1000, 1e6, 1e9, 1e15, math.MaxInt64, math.MaxUint64} {
		b := bucketOf(v)
		if b < 0 || b >= len(histogram{}.counts) {
			t.Fatalf("%d is in bucket %d", v, b)
		}
		if got := float64(valueOf(b)); math.Abs(got-float64(v)) > float64(v)/128 {
			t.Errorf("%d is counted as %v", v, got)
		}
		if v > 0 && bucketOf(v-1) > b {
			t.Errorf("buckets are out of order at %d", v)
		}
	}
}

func TestPacketCountingDoesNotAllocate(t *testing.T) {
	c, d, n := new(packetCount), new(delays), uint64(0)
	if a := testing.AllocsPerRun(1000, func() {
		n += 3
		c.arrive(n, true)
		c.arrive(n-1, true)
		d.add(int64(n), 2)
	}); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestNoDelays(t *testing.T) {
	if d := new(delays); d.variation(0.99) != time.Duration(0) {
		t.Error("variation of nothing")
	}
}

// A clock that was set shows, one that was slewed or read late does not.
func TestClockStep(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		wall, elapsed, want time.Duration
	}{
		{wall: 10 * time.Second, elapsed: 10 * time.Second, want: 0},
		{wall: 10*time.Second + 50*time.Microsecond, elapsed: 10 * time.Second, want: 0},
		{wall: 11 * time.Second, elapsed: 10 * time.Second, want: time.Second},
		{wall: -50 * time.Second, elapsed: 10 * time.Second, want: -time.Minute},
	} {
		if got := clockStep(from, from.Add(test.wall), test.elapsed); got != test.want {
			t.Errorf("%v on the wall in %v: step %v, want %v", test.wall, test.elapsed, got, test.want)
		}
	}
}

// The delays of a receiver whose clock was stepped are no metrics, and it says so.
func TestSteppedClockLeavesDelaysOut(t *testing.T) {
	r := &receiver{stamped: true, width: time.Second, bytes: make([]int64, 1), packets: make([]int64, 1), effective: map[string]string{}, conn: &sockets.Conn{}}
	r.delay(5)
	r.delay(1e9)
	r.flushDelays()
	if got := r.received(protocol.Sent{}, 0); got.Packets.ClockStepped || got.Packets.DelayVariation == 0 {
		t.Errorf("without a step: %+v", got.Packets)
	}
	got := r.received(protocol.Sent{}, time.Hour)
	if !got.Packets.ClockStepped || got.Packets.Jitter != 0 || got.Packets.DelayVariation != 0 || len(got.Facts) != 1 {
		t.Errorf("with a step: %+v, facts %q", got.Packets, got.Facts)
	}
}
