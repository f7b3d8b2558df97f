// Package spelling guesses what a misspelled word was meant to be.
package spelling

import "strings"

// Nearest is the candidate that a misspelled word was probably meant to be,
// empty when none is close.
func Nearest(word string, candidates []string) string {
	// A third of the letters may differ; of one or two letters, none.
	best, bestDistance := "", len(word)/3+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (the optimal string alignment distance). Words are cut to 60
// bytes so that the work is bounded.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), 60)], b[:min(len(b), 60)]
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
