package statistics

import (
	"cmp"
	"math/bits"
	"slices"
)

// Select moves the value of rank k, from 0 for the smallest, to s[k]: those before it are not
// larger, those behind it not smaller (Hoare 1961, Algorithm 65). It needs 0 ≤ k < len(s), and
// takes time in proportion to the length, or to that of sorting where pivots are bad ones.
func Select(s []float64, k int) float64 {
	low, high := 0, len(s) // what is before low is smaller, what is from high on larger
	for tries := 2 * bits.Len(uint(len(s))); high-low > 12 && tries > 0; tries-- {
		three := [3]float64{s[low], s[low+(high-low)/2], s[high-1]}
		slices.Sort(three[:])
		pivot := three[1]
		i, j := low, high-1
		for i <= j {
			for cmp.Less(s[i], pivot) {
				i++
			}
			for cmp.Less(pivot, s[j]) {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j + 1
		case k >= i:
			low = i
		default:
			return s[k]
		}
	}
	slices.Sort(s[low:high])
	return s[k]
}
