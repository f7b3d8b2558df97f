package runner_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

const loaded = `format: hopbench.experiment/1
name: loaded
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: one
paths: [{name: one}, {name: other}]
tests: [{name: bulk, kind: tcp}, {name: under-load, kind: load}]
`

// A duration that no test could have, or not all of them, is refused before the first trial,
// and not by each. What was kept of such a run can be read.
func TestDurationsThatNoTestHas(t *testing.T) {
	for seconds, want := range map[measurement.Seconds]string{3600: "", 6 * 3600: "test under-load: a test of this length may send", 24 * 3600: "test bulk: a warm-up of 2s and a duration of 24h are more than 24h together"} {
		head := store.Head{Experiment: loaded, File: "loaded.yaml", Seed: 3, Duration: seconds}
		_, _, err := runner.Prepare(head)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v s: %v", seconds, err)
		}
		_, err = runner.Result(head, nil)
		testutil.OK(t, err)
	}
}
