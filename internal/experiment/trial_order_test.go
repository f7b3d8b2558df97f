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

// In two stages every path of a block is visited once, and each visit has all tests in the
// same order. The orders of the visits are as balanced as those of the paths in a test, and
// more blocks only add to the plan.
func TestPlanInTwoStages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths, tests := rapid.IntRange(2, 8).Draw(t, "paths"), rapid.IntRange(1, 5).Draw(t, "tests")
		e := made(paths, tests, rapid.IntRange(1, 20).Draw(t, "blocks"))
		e.TwoStage = true
		seed := rapid.Uint64().Draw(t, "seed")
		plan := e.Plan(seed)
		if len(plan.Trials) != e.Blocks*paths*tests {
			t.Fatalf("%d trials", len(plan.Trials))
		}
		after := map[[2]string]int{}
		for b := range e.Blocks {
			block := plan.Trials[b*paths*tests:][:paths*tests]
			seen := map[string]bool{}
			for i, trial := range block {
				visit := block[i/tests*tests]
				if trial.Block != b+1 || trial.Order != b*paths*tests+i+1 || trial.Path != visit.Path || trial.Test != block[i%tests].Test || seen[trial.ID] {
					t.Fatalf("trial %d of block %d is %+v", i, b+1, trial)
				}
				seen[trial.ID] = true
				if i >= tests && i%tests == 0 {
					after[[2]string{block[i-1].Path, trial.Path}]++
				}
			}
			if got, allowed := spread(after, e.Paths), 1+paths%2; got > allowed {
				t.Fatalf("after %d blocks pairs of predecessors differ by %d: %v", b+1, got, after)
			}
		}
		more := *e
		more.Blocks++
		for i, trial := range more.Plan(seed).Trials[:len(plan.Trials)] {
			if trial != plan.Trials[i] {
				t.Fatalf("with one more block trial %d is %+v, not %+v", i, trial, plan.Trials[i])
			}
		}
		if n := plan.Switches(); n < e.Blocks*(paths-1) || n >= e.Blocks*paths {
			t.Fatalf("%d changes of path in %d blocks of %d", n, e.Blocks, paths)
		}
	})
}

// Ten blocks of two paths and three tests change the path less than half as often, and never
// more than once in a block and between two pairs of blocks.
func TestTwoStagesSwitchLess(t *testing.T) {
	const seeds = 1000
	e, stages := made(2, 3, 10), made(2, 3, 10)
	stages.TwoStage = true
	changes, fewer := 0, 0
	for seed := range uint64(seeds) {
		n := stages.Plan(seed).Switches()
		if n > 14 {
			t.Errorf("seed %d changes the path %d times", seed, n)
		}
		changes, fewer = changes+e.Plan(seed).Switches(), fewer+n
	}
	t.Logf("%.1f changes of path on average, in two stages %.1f", float64(changes)/seeds, float64(fewer)/seeds)
	if fewer*2 > changes {
		t.Errorf("%d changes of path, in two stages %d", changes, fewer)
	}
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
