package layout

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/linkem"
)

// emulationOf combines the impairments that follow one another on a link: delays
// add, independent normal variations add in square, a frame is lost or
// duplicated when any of them does it, and the slowest rate rules, of all flows
// together as of each; with its queue, of equal ones with the smallest that is set. Nil when there is nothing to impair.
func emulationOf(impairments []experiment.Impairment, path string, link int) *linkem.Config {
	var d linkem.Direction
	kept, single, ordered := 1.0, 1.0, 1.0
	var variance float64
	for _, m := range impairments {
		d.Delay += m.Delay
		variance += float64(m.Jitter) * float64(m.Jitter)
		kept *= 1 - m.LossFraction
		single *= 1 - m.DuplicateFraction
		ordered *= 1 - m.ReorderFraction
		d.ReorderBy = max(d.ReorderBy, m.ReorderBy)
		switch {
		case m.RateBitsPerSecond == d.RateBitsPerSecond:
			d.QueueBytes = smaller(d.QueueBytes, m.QueueBytes)
		case smaller(d.RateBitsPerSecond, m.RateBitsPerSecond) == m.RateBitsPerSecond:
			d.QueueBytes = m.QueueBytes
		}
		d.RateBitsPerSecond = smaller(d.RateBitsPerSecond, m.RateBitsPerSecond)
		d.PerFlowRateBitsPerSecond = smaller(d.PerFlowRateBitsPerSecond, m.PerFlowRateBitsPerSecond)
	}
	d.Jitter += time.Duration(math.Round(math.Sqrt(variance)))
	d.LossFraction, d.DuplicateFraction, d.ReorderFraction = complement(kept), complement(single), complement(ordered)
	if d == (linkem.Direction{}) {
		return nil
	}
	// The seed is fixed by the place of the link emulator: the same experiment draws
	// the same losses whenever it is built.
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", path, link)
	return &linkem.Config{
		Forward: d, Backward: d, Seed: h.Sum64(),
		// A link emulator carries super-packets of up to 44 segments and would lose
		// all of them together, where a network loses single segments. TCP
		// tells the difference, so such a link emulator is slower but honest.
		NoOffload: d.LossFraction > 0 || d.DuplicateFraction > 0 || d.ReorderFraction > 0 || d.NarrowQueue(),
	}
}

// smaller is the smaller of two bounds, of which 0 is none.
func smaller[T int | float64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// complement is 1-p without the rounding noise that 1-(1-x) leaves in x.
func complement(p float64) float64 { return math.Round((1-p)*1e12) / 1e12 }
