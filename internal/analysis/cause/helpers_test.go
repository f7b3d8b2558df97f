package cause_test

import (
	"math"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
	"go.uber.org/goleak"
)

const goodput = "goodput_bits_per_second"

var (
	flows1  = result.TestInfo{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1}}
	latency = result.TestInfo{Name: "latency", Spec: measurement.Spec{Kind: measurement.RR}}
)

// pathsNamed makes paths of which the first is the baseline.
func pathsNamed(names ...string) []result.PathInfo {
	var out []result.PathInfo
	for i, n := range names {
		out = append(out, result.PathInfo{Name: n, Baseline: i == 0})
	}
	return out
}

// trialOf makes one passed trial.
func trialOf(path, test, metric string, value float64) measurement.Trial {
	return measurement.Trial{
		ID: "b01-" + path + "-" + test, Block: 1, Order: 1, Path: path, Test: test,
		Gate:    measurement.Gate{Passed: true},
		Outcome: measurement.Outcome{Metrics: measurement.Metrics{metric: value}},
	}
}

func testOf(spec measurement.Spec) []result.TestInfo {
	return []result.TestInfo{{Name: "it", Spec: spec.Defaults()}}
}

func plain(s string) string { return strings.ReplaceAll(s, words.NBSP, " ") }

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
