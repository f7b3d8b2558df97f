package experiment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// made is an experiment of so many paths, tests and blocks, as far as a plan needs one.
func made(paths, tests, blocks int) *Experiment {
	e := &Experiment{Blocks: blocks}
	for i := range paths {
		e.Paths = append(e.Paths, Path{Name: fmt.Sprintf("p%d", i)})
	}
	for i := range tests {
		e.Tests = append(e.Tests, Test{Name: fmt.Sprintf("t%d", i)})
	}
	return e
}

// spread is by how much the largest of some counts exceeds the smallest.
func spread(counts map[[2]string]int, paths []Path) int {
	least, most := -1, 0
	for _, a := range paths {
		for _, b := range paths {
			if a.Name == b.Name {
				continue
			}
			n := counts[[2]string{a.Name, b.Name}]
			if most = max(most, n); least < 0 || n < least {
				least = n
			}
		}
	}
	return most - least
}

// In each test of each block every path is once, one after the other. After any
// number of blocks each path has come directly after each other one equally often, but
// for one time with an even number of paths and two with an odd one; at each place of
// a test likewise.
func TestPlanBalancesPredecessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths, tests := rapid.IntRange(2, 16).Draw(t, "paths"), rapid.IntRange(1, 5).Draw(t, "tests")
		e := made(paths, tests, rapid.IntRange(1, 40).Draw(t, "blocks"))
		plan := e.Plan(rapid.Uint64().Draw(t, "seed"))
		after, places := map[string]map[[2]string]int{}, map[string]map[[2]string]int{}
		for i := 0; i < len(plan.Trials); i += paths {
			group := plan.Trials[i : i+paths]
			test, seen := group[0].Test, map[string]bool{}
			if after[test] == nil {
				after[test], places[test] = map[[2]string]int{}, map[[2]string]int{}
			}
			for j, trial := range group {
				if trial.Test != test || trial.Block != group[0].Block || seen[trial.Path] {
					t.Fatalf("the paths of %s of block %d are not next to each other: %+v", test, group[0].Block, trial)
				}
				seen[trial.Path] = true
				places[test][[2]string{fmt.Sprint(j), trial.Path}]++
				if j > 0 {
					after[test][[2]string{group[j-1].Path, trial.Path}]++
				}
			}
			allowed := 1 + paths%2
			if got := spread(after[test], e.Paths); got > allowed {
				t.Fatalf("after %d blocks, pairs of predecessors of %s differ by %d: %v", group[0].Block, test, got, after[test])
			}
			for place, n := range places[test] {
				blocks := group[0].Block
				if rows := paths * allowed; n > (blocks+rows-1)/rows*allowed || n < blocks/rows*allowed {
					t.Fatalf("after %d blocks %s was %d times at place %s of %s", blocks, place[1], n, place[0], test)
				}
			}
		}
	})
}

// Over whole squares the balance is exact.
func TestWilliams(t *testing.T) {
	for n := 2; n <= 16; n++ {
		after, places := map[[2]int]int{}, map[[2]int]int{}
		orders := williams(n)
		for _, order := range orders {
			for i, v := range order {
				places[[2]int{i, v}]++
				if i > 0 {
					after[[2]int{order[i-1], v}]++
				}
			}
		}
		times := 1 + n%2
		if len(orders) != n*times || len(after) != n*(n-1) || len(places) != n*n {
			t.Errorf("%d things have %d orders, %d pairs, %d places", n, len(orders), len(after), len(places))
		}
		for pair, got := range after {
			if got != times {
				t.Errorf("of %d things, %v is there %d times, want %d", n, pair, got, times)
			}
		}
		for place, got := range places {
			if got != times {
				t.Errorf("of %d things, place %v is taken %d times, want %d", n, place, got, times)
			}
		}
	}
}

// Every order of the tests of a block, and of the paths inside a test, is about
// equally likely: a chi-squared test at a level of one in a million, on fixed seeds.
// One block of each seed counts, since the blocks of a plan balance each other.
func TestPlanOrderIsUniform(t *testing.T) {
	const seeds = 6000
	e := made(3, 3, 7)
	tests, paths := map[string]int{}, map[string]int{}
	for seed := range uint64(seeds) {
		block := e.Plan(seed).Trials[9*(seed%7):][:9]
		order := ""
		for i := 0; i < 9; i += 3 {
			order += block[i].Test
		}
		tests[order]++
		paths[block[0].Path+block[1].Path+block[2].Path]++
	}
	for what, counts := range map[string]map[string]int{"tests": tests, "paths": paths} {
		chi := 0.0
		for _, n := range counts {
			chi += (float64(n) - seeds/6) * (float64(n) - seeds/6) / (seeds / 6)
		}
		// 5 degrees of freedom; P(chi² > 35.9) is 1e-6.
		if len(counts) != 6 || chi > 35.9 {
			t.Errorf("orders of the %s are %v: chi² %.1f", what, counts, chi)
		}
	}
}

// A seed gives the first blocks of a longer run, too.
func TestPlanOfMoreBlocksGoesOn(t *testing.T) {
	long := made(5, 4, 30).Plan(7)
	for blocks := range 30 {
		for i, trial := range made(5, 4, blocks).Plan(7).Trials {
			if trial != long.Trials[i] {
				t.Fatalf("trial %d of %d blocks is %+v, of 30 it is %+v", i+1, blocks, trial, long.Trials[i])
			}
		}
	}
}

func TestPermutationIsOne(t *testing.T) {
	random := rand.NewPCG(1, planStream)
	for n := range 40 {
		seen := map[int]bool{}
		for _, v := range permutation(random, n) {
			seen[v] = v >= 0 && v < n
		}
		if len(seen) != n {
			t.Errorf("an order of %d numbers has %d", n, len(seen))
		}
	}
}
