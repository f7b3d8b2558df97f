package statistics

import (
	"cmp"
	"slices"
)

// Ascending gives the indices of values in the order of these; equal ones stay in theirs.
func Ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// DoubledMidranks ranks values from 1 and doubles the ranks, so that the mean
// rank which tied values share is a whole number too.
func DoubledMidranks(values []float64) []int {
	order := Ascending(values)
	ranks := make([]int, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		// Ranks from+1 … to share their mean (from+1+to)/2.
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		from = to
	}
	return ranks
}
