package words

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// A percentile that is absent is said to be, and why.
func TestLackingPercentiles(t *testing.T) {
	for _, c := range []struct {
		kind    measurement.Kind
		metrics measurement.Metrics
		d       measurement.Distribution
		want    string
	}{
		{measurement.RR, measurement.Metrics{"rtt_p50_seconds": 1e-3}, measurement.Distribution{Samples: 412}, "p50 1.00\u00a0ms   p99: lacks samples (412 of 1000)"},
		{measurement.RR, nil, measurement.Distribution{Samples: 400, Unanswered: 600}, "p50: lost   p99: lost"},
		{measurement.RR, measurement.Metrics{"rtt_p50_seconds": 1e-3}, measurement.Distribution{Samples: 980, Unanswered: 20}, "p50 1.00\u00a0ms   p99: lost"},
		{measurement.Load, measurement.Metrics{"loaded_rtt_p50_seconds": 1e-3}, measurement.Distribution{Samples: 5, Unanswered: 995}, "p50 1.00\u00a0ms   p99: lost"},
		{measurement.CRR, nil, measurement.Distribution{Samples: 15}, "transaction p50: lacks samples (15 of 20)   p99: lacks samples (15 of 1000)"},
		{measurement.Ping, measurement.Metrics{"rtt_p50_seconds": 1e-3}, measurement.Distribution{Samples: 20}, "p50 1.00\u00a0ms"},
	} {
		got := Trial(measurement.Spec{Kind: c.kind}, measurement.Trial{Outcome: measurement.Outcome{Metrics: c.metrics, Latency: &c.d}})
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s …", c.kind, got, c.want)
		}
	}
}

// Where few answers came because lost requests were waited for, it is said what helps.
func TestFewAnswers(t *testing.T) {
	f := measurement.Finding{Code: measurement.FoundFewAnswers, Count: 3, Needed: 10}
	if got := Finding(f); strings.Contains(got, "timeout") {
		t.Error(got)
	}
	f.Of = 5
	if got := Finding(f); !strings.Contains(got, "2 of 5 requests were lost") || !strings.Contains(got, "requests_per_second") {
		t.Error(got)
	}
}

// Trials that their path broke are not among those that count for nothing.
func TestTrialsOfARun(t *testing.T) {
	r := &result.Result{Planned: 4, Complete: true, Trials: []measurement.Trial{
		{Gate: measurement.Gate{Passed: true}}, {Gate: measurement.Gate{Broken: true}}, {Gate: measurement.Gate{Broken: true}}, {},
	}}
	if got := TrialsOf(r); got != "4 trials, 1 excluded, 2 broken" {
		t.Errorf("got %q", got)
	}
	r.Trials = r.Trials[:2]
	if got := TrialsOf(r); got != "2 of 4 trials, 1 broken" {
		t.Errorf("got %q", got)
	}
}
