package ftp

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

const (
	// binWidth is the first width of a series' bins, and maxBins how many it may
	// have: the bins of a longer transfer are joined two by two.
	binWidth = 10 * time.Millisecond
	maxBins  = 10_000
)

// series counts bytes in equal bins of time. It belongs to one goroutine.
type series struct {
	width time.Duration
	bins  []int64
}

// add counts n bytes that came at a time since the start, which does not go back.
func (s *series) add(at time.Duration, n int) {
	if s.width == 0 {
		s.width = binWidth
	}
	i := int(max(at, 0) / s.width)
	for i >= maxBins {
		s.halve()
		i = int(at / s.width)
	}
	for len(s.bins) <= i {
		s.bins = append(s.bins, 0)
	}
	s.bins[i] += int64(n)
}

// halve joins the bins two by two.
func (s *series) halve() {
	for i := range s.bins {
		if i%2 == 0 {
			s.bins[i/2] = s.bins[i]
		} else {
			s.bins[i/2] += s.bins[i]
		}
	}
	s.bins = s.bins[:(len(s.bins)+1)/2]
	s.width *= 2
}

// sum adds up several series, in bins as wide as the widest of any.
func sum(all ...*series) measurement.Bins {
	total := series{width: binWidth}
	for _, s := range all {
		for total.width < s.width {
			total.halve()
		}
	}
	for _, s := range all {
		for i, n := range s.bins {
			if n > 0 {
				total.add(time.Duration(i)*s.width, int(n))
			}
		}
	}
	return measurement.BinsOf(total.width, total.bins)
}
