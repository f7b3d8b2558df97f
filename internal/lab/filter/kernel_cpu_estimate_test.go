package filter

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// copied is the beginning of a frame as a stopwatch copies it: TCP, without options.
func copied(id uint16, ttl uint8, source byte, sequence uint32) []byte {
	frame := make([]byte, 14+20+20)
	frame[12] = 0x08 // IPv4
	packet := frame[14:]
	packet[0], packet[8], packet[9], packet[15] = 0x45, ttl, protocolTCP, source
	binary.BigEndian.PutUint16(packet[4:], id)
	binary.BigEndian.PutUint32(packet[24:], sequence)
	return frame
}

func TestReadStamp(t *testing.T) {
	whole := copied(7, 64, 1, 99)
	s, ok := readStamp(whole, 5)
	if !ok || s.at != 5 || s.ttl != 64 {
		t.Fatalf("got %+v, %v", s, ok)
	}
	for name, c := range map[string]struct {
		frame []byte
		same  bool
	}{
		"one hop later, translated": {copied(7, 63, 9, 99), true},
		"another segment":           {copied(7, 64, 1, 100), false},
		"another packet":            {copied(8, 64, 1, 99), false},
	} {
		if other, ok := readStamp(c.frame, 0); !ok || (other.key == s.key) != c.same {
			t.Errorf("%s: %+v, %v", name, other, ok)
		}
	}
	arp := slices.Clone(whole)
	arp[13] = 0x06
	for _, frame := range [][]byte{nil, whole[:33], arp} {
		if s, ok := readStamp(frame, 0); ok {
			t.Errorf("%d bytes are a stamp: %+v", len(frame), s)
		}
	}
}

func FuzzReadStamp(f *testing.F) {
	f.Add(copied(7, 64, 1, 99))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		s, ok := readStamp(frame, 1)
		if ok && len(frame) < 34 {
			t.Errorf("%d bytes are a stamp: %+v", len(frame), s)
		}
	})
}

// Packets that pass a node on several CPUs at the same time are told apart,
// whatever is lost of others; the mean is that of those that were seen whole.
func TestKernelWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stamps []stamp
		var sum, n int64
		for i := range rapid.IntRange(1, 40).Draw(t, "packets") {
			began := rapid.Int64Range(0, 1_000_000).Draw(t, "began")
			one := rapid.Int64Range(100, 5_000).Draw(t, "copy")
			work := rapid.Int64Range(0, (longestStay-1)*one).Draw(t, "work")
			keep := rapid.IntRange(0, StampsOnEntry+3).Draw(t, "stamps") // more than there are: all
			s, _ := readStamp(copied(uint16(i), 64, 1, 0), began)
			for k := range StampsOnEntry {
				s.at = began + int64(k)*one
				if k < keep {
					stamps = append(stamps, s)
				}
			}
			if keep > StampsOnEntry {
				s.at, s.ttl = s.at+one+work, 63
				stamps = append(stamps, s)
				sum, n = sum+work, n+1
			}
		}
		slices.SortStableFunc(stamps, func(a, b stamp) int { return int(a.at - b.at) })
		var w kernelWork
		for _, s := range stamps {
			w.add(s)
		}
		if w.sum != sum || w.n != n {
			t.Fatalf("%d packets took %d ns, want %d and %d", w.n, w.sum, n, sum)
		}
	})
}

func TestKernelWorkRefuses(t *testing.T) {
	key := stampKey{1}
	for name, c := range map[string]struct {
		at  [4]int64 // of the packet's stamps
		ttl uint8    // of the last
		n   int64
	}{
		"whole":                         {[4]int64{0, 1000, 2000, 4000}, 63, 1},
		"never leaves":                  {[4]int64{0, 1000, 2000, 4000}, 64, 0},
		"leaves by another hop":         {[4]int64{0, 1000, 2000, 4000}, 62, 0},
		"held up":                       {[4]int64{0, 1000, 2000, 2_100_000}, 63, 0},
		"interrupted as it was stamped": {[4]int64{0, 1000, 51_000, 53_000}, 63, 0},
		"on a slow machine":             {[4]int64{0, 90_000, 160_000, 2_000_000}, 63, 1},
		"another packet, much later":    {[4]int64{0, 1000, 2000, 200_000_000}, 63, 0},
	} {
		var w kernelWork
		for i, at := range c.at {
			s := stamp{at: at, ttl: 64, key: key}
			if i == 3 {
				s.ttl = c.ttl
			}
			w.add(s)
		}
		if w.n != c.n {
			t.Errorf("%s: %d packets", name, w.n)
		}
	}
	var many kernelWork
	for i := range 3 * maxVisits {
		s := stamp{ttl: 64}
		binary.LittleEndian.PutUint32(s.key[:], uint32(i))
		many.add(s)
	}
	if len(many.visits) > maxVisits {
		t.Errorf("%d visits are remembered", len(many.visits))
	}
}

// The mean of the stamped packets of each interval stands for all of it; what no
// packet was stamped in, the one before stands for.
func TestKernelWorkEstimate(t *testing.T) {
	var w kernelWork
	for _, step := range []struct {
		sum, n  int64
		packets uint64
		want    time.Duration
	}{
		{0, 0, 50, 0},
		{2_000, 4, 100, 50_000}, // 500 ns each, of those before, too
		{0, 0, 200, 100_000},
		{3_000, 3, 300, 200_000}, // 1000 ns
		{-5, 1, 400, 200_000},    // a copy took longer than the work
		{0, 0, 350, 200_000},
	} {
		w.sum, w.n = step.sum, step.n
		if got := w.estimate(step.packets); got != step.want {
			t.Errorf("at %d packets %v, want %v", step.packets, got, step.want)
		}
	}
}
