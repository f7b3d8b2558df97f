package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

const (
	goodput = "goodput_bits_per_second"
	rttP50  = "rtt_p50_seconds"
)

var (
	flows1  = result.TestInfo{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1}}
	latency = result.TestInfo{Name: "latency", Spec: measurement.Spec{Kind: measurement.RR}}
	udp     = result.TestInfo{Name: "udp", Spec: measurement.Spec{Kind: measurement.UDP, Duration: 1}}
)

// pathsNamed makes paths of which the first is the baseline.
func pathsNamed(names ...string) []result.PathInfo {
	var out []result.PathInfo
	for i, n := range names {
		out = append(out, result.PathInfo{Name: n, Baseline: i == 0, Source: "vm1", Dest: "vm2"})
	}
	return out
}

// trialsOf makes one passed trial per value, in blocks 1, 2, ….
func trialsOf(path, test, metric string, values ...float64) []measurement.Trial {
	var out []measurement.Trial
	for i, v := range values {
		out = append(out, measurement.Trial{
			ID: fmt.Sprintf("b%02d-%s-%s", i+1, path, test), Block: i + 1, Order: i + 1, Path: path, Test: test,
			Gate:    measurement.Gate{Passed: true},
			Outcome: measurement.Outcome{Metrics: measurement.Metrics{metric: v}},
		})
	}
	return out
}

// around makes n values at the centre with a fixed pattern of deviations whose
// greatest is the fraction.
func around(centre, fraction float64, n, shift int) []float64 {
	pattern := []float64{0.1, -0.6, 0.8, -0.2, 0.4, -1, 0.6, -0.4, 1, -0.8, 0.2}
	out := make([]float64, n)
	for i := range out {
		out[i] = centre * (1 + fraction*pattern[(i*3+shift)%len(pattern)])
	}
	return out
}

// trialsOfTwo are those of the path direct and of hop.
func trialsOfTwo(test, metric string, direct, hop []float64) []measurement.Trial {
	return append(trialsOf("direct", test, metric, direct...), trialsOf("hop", test, metric, hop...)...)
}

// analysed compares hop with direct by the trials of one test.
func analysed(test result.TestInfo, trials ...[]measurement.Trial) Analysis {
	return Analyse(slices.Concat(trials...), []result.TestInfo{test}, pathsNamed("direct", "hop"), Options{})
}

// onTwoPaths compares hop with direct.
func onTwoPaths(test result.TestInfo, metric string, direct, hop []float64, opts Options) Analysis {
	return Analyse(trialsOfTwo(test.Name, metric, direct, hop), []result.TestInfo{test}, pathsNamed("direct", "hop"), opts)
}

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// only returns the one cost of an analysis.
func only(t failer, a Analysis) result.Effect {
	t.Helper()
	if len(a.Costs) != 1 {
		t.Fatalf("%d costs, want 1: %+v", len(a.Costs), a.Costs)
	}
	return a.Costs[0]
}

// said is an effect's sentence with plain spaces, written by those names.
func said(e result.Effect) string { return plain(words.Names{}.Effect(e)) }

// notesText are the notes as a reader sees them, one a line.
func notesText(notes []result.Note) string {
	return plain(strings.Join(words.Names{}.Notes(notes), "\n"))
}

func plain(s string) string { return strings.ReplaceAll(s, words.NBSP, " ") }

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestMain(m *testing.M) {
	testutil.SeldomCollect()
	goleak.VerifyTestMain(m)
}
