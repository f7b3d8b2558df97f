package experiment

import "math/rand/v2"

// This file draws the order of trials.

// planStream is the second half of the generator's state; it keeps the order
// of trials apart from whatever else may be drawn from the same seed.
const planStream = 0x686f7062656e6368 // "hopbench"

// williams are orders of n things such that each stands at each place equally often,
// and comes directly after each other one equally often: n orders for an even n, in which
// each pair is once, 2n for an odd one, in which each is twice (E. J. Williams:
// Experimental Designs Balanced for the Estimation of Residual Effects of Treatments,
// Australian Journal of Scientific Research A 2, 1949).
func williams(n int) [][]int {
	first := make([]int, n) // 0, 1, n-1, 2, n-2, ...
	for i := range first {
		if first[i] = (i + 1) / 2; i%2 == 0 {
			first[i] = (n - i/2) % n
		}
	}
	var orders [][]int
	for shift := range n {
		order, mirrored := make([]int, n), make([]int, n)
		for i, v := range first {
			order[i] = (v + shift) % n
			mirrored[n-1-i] = order[i]
		}
		if orders = append(orders, order); n%2 == 1 {
			orders = append(orders, mirrored)
		}
	}
	return orders
}

// balanced draws the orders of the paths for as many blocks as it takes to balance
// who comes after whom: the rows of a Williams square with random labels, shuffled.
// Each of them by itself is a random order like any other.
func balanced(random *rand.PCG, paths int) [][]int {
	labels, orders := permutation(random, paths), williams(paths)
	for _, order := range orders {
		for i := range order {
			order[i] = labels[order[i]]
		}
	}
	shuffle(random, orders)
	return orders
}

// permutation draws an order of the numbers from 0 to n-1.
func permutation(random *rand.PCG, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	shuffle(random, out)
	return out
}

func shuffle[T any](random *rand.PCG, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := below(random, uint64(i+1))
		list[i], list[j] = list[j], list[i]
	}
}

// below draws evenly from 0 to n-1; draws from the incomplete last multiple
// of n are rejected.
func below(random *rand.PCG, n uint64) int {
	limit := -n % n // 2^64 mod n
	for {
		if draw := random.Uint64(); draw >= limit {
			return int(draw % n)
		}
	}
}
