package survey

import (
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// explain changes one thing where it cannot be told what limited one flow. What more
// flows bring, the search has mostly tried.
func (o Options) explain(done []Step) []result.TestInfo {
	if s, ok := find(done, flowsName(1)); !ok || !s.counts() || LacksServer(done) {
		return nil
	}
	return variations(done, func(test string) bool { return test == flowsName(1) })
}

// variations are further tests, each of a test that is wanted with one thing changed,
// that tell what limited it.
func variations(done []Step, wanted func(test string) bool) []result.TestInfo {
	var trials []measurement.Trial
	var tests []result.TestInfo
	for _, s := range done {
		trials, tests = append(trials, s.Trial), append(tests, s.Test)
	}
	if len(done) == 0 {
		return nil
	}
	path := []result.PathInfo{{Name: done[0].Trial.Path}}
	var out []result.TestInfo
	for _, v := range analysis.Vary(trials, tests, path, analysis.DefaultOptions()) {
		if wanted(v.Test.Explains) {
			out = append(out, v.Test)
		}
	}
	return out
}

// Explained is tests that were chosen beforehand, and then those that tell what limited
// them.
type Explained struct{ List }

// Next is the first test that was not done.
func (e Explained) Next(done []Step) (result.TestInfo, bool) {
	if len(done) < len(e.List) {
		return e.List.Next(done)
	}
	if further := variations(done, func(string) bool { return true }); len(further) > 0 && !LacksServer(done) {
		return further[0], true
	}
	return result.TestInfo{}, false
}

// Left are the tests that were not done; of those that explain, the one that is next.
func (e Explained) Left(done []Step) []result.TestInfo {
	if len(done) < len(e.List) {
		return e.List.Left(done)
	}
	if test, ok := e.Next(done); ok {
		return []result.TestInfo{test}
	}
	return nil
}
