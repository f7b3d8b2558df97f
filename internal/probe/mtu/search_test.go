package mtu

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Whatever a path carries is found within the bound of rounds, even when
// routers name wrong sizes and the tries of some size are all lost once.
func TestSizeSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1500, 9000, 9216, 65535}).Draw(t, "most")
		carries := rapid.IntRange(68, most).Draw(t, "carries")
		hints := rapid.SliceOfN(rapid.IntRange(0, 70000), 0, 3).Draw(t, "hints")
		s := newSizeSearch(68, most)
		for {
			sizes := s.next(hints)
			if len(sizes) == 0 {
				break
			}
			if len(sizes) > sizesAtOnce {
				t.Fatalf("%d sizes at once", len(sizes))
			}
			for i, n := range sizes {
				if n < 68 || n > most || i > 0 && n >= sizes[i-1] {
					t.Fatalf("sizes %v", sizes)
				}
			}
			s.add(sizes, func(n int) bool { return n <= carries })
		}
		if s.passed != carries || s.round > mostRounds+1 { // the last call finds it over
			t.Fatalf("found %d of %d in %d rounds", s.passed, carries, s.round)
		}
	})
}

func TestSizeSearchSurvivesChance(t *testing.T) {
	for lost := 2; lost <= 4; lost++ { // the round in which everything is lost
		s := newSizeSearch(68, 1500)
		for {
			sizes := s.next(nil)
			if len(sizes) == 0 {
				break
			}
			s.add(sizes, func(n int) bool { return n <= 1400 && s.round != lost })
		}
		if s.passed != 1400 {
			t.Errorf("found %d bytes although round %d was lost", s.passed, lost)
		}
	}
}

// Who is said to bound a path, by what routers said.
func TestLimit(t *testing.T) {
	says := func(mtus ...int) (all []sockets.PathError) {
		for _, mtu := range mtus {
			all = append(all, sockets.PathError{From: "10.0.0.1", MTU: mtu})
		}
		return all
	}
	for _, c := range []struct {
		tooBig      []sockets.PathError
		limit, fact string
	}{
		{nil, measurement.MTUBlackHole, "vanish, and no ICMP message says that they are too big; TCP"},
		{says(1400), measurement.MTURouter, "said that its next link carries 1400 bytes"},
		{says(1450, 1400), measurement.MTURouter, "carries 1400 bytes"},
		{says(1450), measurement.MTUBlackHole, "up to the 1450 that the router 10.0.0.1 said"},
		{says(1390), measurement.MTURouter, "carries 1390 bytes, and 1400 pass"},
		{says(0), measurement.MTURouter, "packets of more than 1400 bytes are too big for it, and not what its next link carries"},
	} {
		limit, fact := (&test{tooBig: c.tooBig}).limit(1400, 1500, "eth0", 1500)
		if limit != c.limit || !strings.Contains(fact, c.fact) {
			t.Errorf("%v: %s, %q", c.tooBig, limit, fact)
		}
	}
}

// The server of an mtu test answers its own test alone, and never with more
// than came.
func FuzzProbeAnswer(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	for kind := range byte(8) {
		p := make([]byte, 100)
		datagram.PutHeader(p, cookie, kind)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := probeAnswer(b, cookie)
		if n < 0 || n > len(b) || n > 0 && !bytes.HasPrefix(b, cookie) {
			t.Fatalf("%d bytes answer %d", n, len(b))
		}
		if i, ok := answeredProbe(b, cookie, datagram.Probe); ok && i < 0 {
			t.Fatalf("probe %d", i)
		}
	})
}
