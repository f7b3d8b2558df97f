package mtu

import (
	"slices"
)

// sizeSearch finds the largest size that passes, by rounds of several sizes.
type sizeSearch struct {
	passed, failed, most int // bytes of the IP packet
	round                int
	// confirmed says that the smallest size that failed was tried again.
	confirmed bool
}

func newSizeSearch(least, most int) *sizeSearch {
	return &sizeSearch{passed: least - 1, failed: most + 1, most: most}
}

// next is the sizes to try together, largest first; none when it is over.
// Hints are sizes that something named.
func (s *sizeSearch) next(hints []int) []int {
	s.round++
	var sizes []int
	add := func(n int) {
		if n > s.passed && n < s.failed {
			sizes = append(sizes, n)
		}
	}
	gap := s.failed - s.passed - 1 // sizes that are not decided
	switch {
	case s.round > mostRounds || gap == 0 && (s.confirmed || s.failed > s.most):
		return nil
	case gap == 0:
		// Once more: the tries of this size may all have been lost by chance.
		s.confirmed, s.failed = true, s.failed+1
		return []int{s.failed - 1}
	case s.round == 1:
		// Most paths carry the largest, which costs one round trip to see.
		add(s.passed + 1)
		add(s.most)
	default:
		for _, h := range hints[:min(len(hints), mostHints)] {
			add(h)
			add(h + 1)
		}
		if s.round == 2 {
			for _, n := range commonMTUs {
				add(n)
			}
		}
		for i, n := 1, sizesAtOnce-len(sizes); i <= n; i++ {
			add(s.passed + (i*gap+n-1)/n)
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	slices.Reverse(sizes)
	return sizes
}

// add takes which of the sizes passed.
func (s *sizeSearch) add(sizes []int, passed func(int) bool) {
	for _, n := range sizes {
		if !passed(n) {
			continue
		}
		s.passed = max(s.passed, n)
		if n+1 >= s.failed {
			s.failed, s.confirmed = s.most+1, false // the size had failed by chance
		}
	}
	// A size that failed below one that passed was lost by chance.
	for _, n := range sizes {
		if n > s.passed && n < s.failed {
			s.failed = n
		}
	}
}

// commonMTUs are sizes at which paths end: Ethernet and what tunnels leave of it.
var commonMTUs = [...]int{jumboMTU, 9000, 8192, 4352, 2000, 1500, 1492, 1480, 1476, 1472, 1460, 1450, 1440, 1430, 1420, 1412, 1400, 1380, 1360, 1320, 1300, 1280, 1006, 576}
