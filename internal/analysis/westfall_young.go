package analysis

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
)

const (
	// maxFlipped is the number of blocks up to which all flips of signs are
	// gone through; of more blocks, sampledFlips are drawn.
	maxFlipped = 15
	// sampledFlips counts the data themselves too.
	sampledFlips = 16384
	// clipAt is how many medians of its comparison's effects an effect weighs
	// at most, so that one wild block does not drown the others.
	clipAt = 3
)

// stepDown gives the adjusted p of every comparison of a family: the step-down
// procedure of Westfall & Young (1993, algorithm 4.1) on the largest statistic,
// over joint flips of the signs of whole blocks. Where no path differs from its
// baseline, exchanging the sides in a block changes nothing, and exchanging
// them in all comparisons at once keeps what the comparisons share: the block,
// and the baseline's trial.
//
// The statistic is the sum of a comparison's clipped effects over the root of
// the sum of their squares, a monotone function of Student's t. Ranks of each
// comparison by itself would not do: any comparison of n blocks attains the
// largest sum of ranks in two of the 2ⁿ flips, so that six blocks could not tell
// the steadiest effect from a neighbour whose signs happen to agree.
func stepDown(members []*costEstimate) []float64 {
	m := len(members)
	scores := blockScores(members)
	n := len(scores) / max(1, m)
	observed := make([]float64, m)
	for j := range observed {
		for b := range n {
			observed[j] += scores[b*m+j]
		}
	}
	sums := slices.Clone(observed)
	for j, v := range observed {
		observed[j] = math.Abs(v) - 1e-9 // less what rounding may take
	}
	order := statistics.Ascending(observed) // the maximum over those not larger is one pass
	counts := make([]int, m)
	total := 0
	eachFlip(scores, sums, m, func() {
		total++
		most := 0.0
		for _, j := range order {
			most = max(most, math.Abs(sums[j]))
			if most >= observed[j] {
				counts[j]++
			}
		}
	})
	p := make([]float64, m)
	running := 0.0
	for _, j := range slices.Backward(order) {
		running = math.Max(running, float64(counts[j])/float64(total))
		p[j] = running
	}
	return p
}

// eachFlip calls visit with the sums of the scores under each flip of the signs
// of blocks, the data's own first. A flip and its opposite have the same
// statistics, so the first block keeps its sign.
func eachFlip(scores, sums []float64, m int, visit func()) {
	n := len(scores) / max(1, m)
	if n <= maxFlipped {
		sign := slices.Repeat([]float64{1}, n)
		for flip := range 1 << max(0, n-1) {
			if flip > 0 {
				// The Gray code: each flip differs from the last in one block.
				b := 0
				for x := flip; x&1 == 0; x >>= 1 {
					b++
				}
				sign[b+1] = -sign[b+1]
				for j := range m {
					sums[j] += 2 * sign[b+1] * scores[(b+1)*m+j]
				}
			}
			visit()
		}
		return
	}
	visit()
	r := rand.New(rand.NewPCG(uint64(n), 0)) // the same trials give the same report
	for range sampledFlips - 1 {
		clear(sums)
		var bits uint64
		for b := range n {
			if b%64 == 0 {
				bits = r.Uint64()
			}
			row := scores[b*m : (b+1)*m]
			if bits&1 == 0 {
				for j, v := range row {
					sums[j] += v
				}
			} else {
				for j, v := range row {
					sums[j] -= v
				}
			}
			bits >>= 1
		}
		visit()
	}
}

// blockScores are what each block adds to the statistic of each comparison, a
// row of all comparisons for each block that any of them has.
func blockScores(members []*costEstimate) []float64 {
	row := map[int]int{}
	for _, c := range members {
		for _, b := range c.blocks {
			if _, seen := row[b]; !seen {
				row[b] = len(row)
			}
		}
	}
	m := len(members)
	out := make([]float64, len(row)*m)
	for j, c := range members {
		weights := clipped(c.effects)
		norm := 0.0
		for _, w := range weights {
			norm += w * w
		}
		if norm == 0 {
			continue
		}
		for i, b := range c.blocks {
			if c.effects[i] != 0 {
				out[row[b]*m+j] = math.Copysign(weights[i]/math.Sqrt(norm), c.effects[i])
			}
		}
	}
	return out
}

// clipped are the sizes of effects, none larger than clipAt times the median of
// those that are not zero, in units of that limit. Where an effect is infinite
// they are ranks.
func clipped(effects []float64) []float64 {
	out := make([]float64, len(effects))
	var sizes []float64
	unbounded := false
	for i, v := range effects {
		out[i] = math.Abs(v)
		unbounded = unbounded || math.IsInf(v, 0)
		if v != 0 {
			sizes = append(sizes, out[i])
		}
	}
	if unbounded {
		for i, rank := range statistics.DoubledMidranks(out) {
			out[i] = float64(rank)
		}
		return out
	}
	limit := clipAt * statistics.Median(sizes)
	for i, v := range out {
		if v != 0 {
			out[i] = math.Min(1, v/limit)
		}
	}
	return out
}
