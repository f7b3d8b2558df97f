package layout

import (
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// noteParts says of the hops whose counters are read which hop does what they count: the
// link emulators behind a hop act on the same link as it does, and the slowest rate rules.
func (s *state) noteParts() {
	for i := range s.path.HopNodes {
		n := &s.path.HopNodes[i]
		if place, joins := s.joining[n.Node]; joins {
			n.Parts = s.partsOf(n.Hop, s.linksBehind(place))
			continue
		}
		for place, h := range s.hops {
			if h.Forwards() && h.Label() == n.Hop {
				n.Parts = s.partsOf(n.Hop, s.acting(place))
			}
		}
	}
	if s.path.Leading != nil {
		leading := *s.path.Leading // the states of a path share it
		leading.Parts = s.partsOf(leading.Hop, s.acting(-1))
		s.path.Leading = &leading
	}
}

// acting are the hops that act on the link that leaves one of them towards the destination,
// or the source: it itself, and the link emulators up to the next node that is not bypassed.
func (s *state) acting(place int) []experiment.Hop {
	if place < 0 {
		return s.linksBehind(place)
	}
	own := []experiment.Hop{s.hops[place].Hop}
	if s.hops[place].actsInside() {
		return own
	}
	return append(own, s.linksBehind(place)...)
}

// linksBehind are the link emulators from a hop up to the next node that is not bypassed.
func (s *state) linksBehind(place int) (out []experiment.Hop) {
	for _, h := range s.hops[place+1:] {
		switch {
		case !h.Forwards():
			out = append(out, h.Hop)
		case !s.passed(h, false):
			return out
		}
	}
	return out
}

// partsOf are those of hops that act on one link and are counted by a name.
func (s *state) partsOf(name string, hops []experiment.Hop) measurement.HopParts {
	var rate, flowRate float64
	var parts measurement.HopParts
	var losing, reordering, acting []string
	for _, h := range hops {
		own := h.RateBitsPerSecond
		if h.Inspects() && h.Mode != experiment.IDPSOff && !s.variant.IsOff(h) {
			own = smaller(own, h.InspectRateBitsPerSecond)
		}
		if own > 0 && smaller(rate, own) != rate {
			rate, parts.Rate = own, h.Label()
		}
		if own := h.PerFlowRateBitsPerSecond; own > 0 && smaller(flowRate, own) != flowRate {
			flowRate, parts.FlowRate = own, h.Label()
		}
		if h.LossFraction > 0 {
			losing = append(losing, h.Label())
		}
		if h.ReorderFraction > 0 {
			reordering = append(reordering, h.Label())
		}
		if h.Inspects() || h.Impairment != (experiment.Impairment{}) {
			acting = append(acting, h.Label())
		}
	}
	parts.Losses, parts.Reordering, parts.Process = strings.Join(losing, " + "), strings.Join(reordering, " + "), strings.Join(acting, " + ")
	for _, part := range []*string{&parts.Rate, &parts.FlowRate, &parts.Losses, &parts.Reordering, &parts.Process} {
		if *part == name {
			*part = ""
		}
	}
	return parts
}
