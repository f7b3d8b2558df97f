package report_test

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
)

// What costs leads the verdicts of its test, whatever is better or the same next to it.
func TestCostsLeadTheirTest(t *testing.T) {
	r := reporttest.Run(t, 10)
	first := r.Costs[0]
	r.Costs = nil
	for _, v := range []result.Verdict{result.NoCost, result.Gains, result.Costs, result.NotResolved, result.Breaks} {
		e := first
		e.Verdict = v
		r.Costs = append(r.Costs, e)
	}
	var got []result.Verdict
	for _, v := range report.New(r).Verdicts {
		got = append(got, v.Kind)
	}
	if want := []result.Verdict{result.Costs, result.Breaks, result.NoCost, result.Gains, result.NotResolved}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}
