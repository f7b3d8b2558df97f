package survey

import (
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// slower is the share of what a flow carried at which it is tried again.
const slower = 0.9

// explain changes one thing where it cannot be told what limited one flow: a rate that
// something on the path sets can be kept to without losses or a queue by pacing a little
// below it. What more flows bring, the search has tried.
func (o Options) explain(done []Step) []result.TestInfo {
	s, ok := find(done, flowsName(1))
	goodput := s.Trial.Metrics[goodputName]
	if !ok || !s.counts() || goodput <= 0 || noServer(done) || !undecided(s) {
		return nil
	}
	test := streams(1, measurement.Send, 1, 0.5)
	test.Name, test.Title, test.Explains = test.Name+"-slower", test.Title+", a tenth slower", s.Test.Name
	test.Spec.PacingBitsPerSecond = slower * goodput
	return []result.TestInfo{test}
}

// undecided says that what limited a test cannot be told from the test itself, although
// the sender's kernel told of it.
func undecided(s Step) bool {
	if len(s.Trial.Flows) == 0 || s.Trial.Flows[0].Final == nil {
		return false
	}
	path := result.PathInfo{Name: s.Trial.Path}
	for _, a := range analysis.Analyse([]measurement.Trial{s.Trial}, []result.TestInfo{s.Test}, []result.PathInfo{path}, analysis.DefaultOptions()).Attributions {
		cause, ok := analysis.Dominant(a.Shares)
		return !ok || cause == result.CauseUnknown
	}
	return false
}
