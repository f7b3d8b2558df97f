package linkem

import (
	"math/rand/v2"
)

// draw yields true with a probability.
type draw struct {
	below  uint64
	always bool
	source rand.PCG
}

func newDraw(fraction float64, seed, stream uint64) draw {
	d := draw{source: *rand.NewPCG(seed, stream), always: fraction >= 1}
	if fraction > 0 && !d.always {
		d.below = uint64(fraction * (1 << 63) * 2)
	}
	return d
}

func (d *draw) hit() bool {
	if d.below == 0 {
		return d.always
	}
	return d.source.Uint64() < d.below
}

// Streams of random numbers, one for each stage of each direction.
const (
	streamLoss = iota
	streamDuplicate
	streamJitter
	streamReorder
	streamsPerDirection
)
