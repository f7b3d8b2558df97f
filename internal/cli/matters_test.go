package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A stored run is judged again by other margins, which the report says; the run keeps
// its own.
func TestReportJudgesAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	var f runFlags
	testutil.OK(t, f.matters.Set("rtt=50us"))
	testutil.OK(t, f.matters.Set("goodput=3%"))
	r, err := prepareRun(base.Streams{}, f, "aa-null")
	testutil.OK(t, err)
	st, err := store.Create("run", r.head)
	testutil.OK(t, err)
	for i, p := range r.plan.Trials {
		value := 1e9 + float64(i)
		testutil.OK(t, st.Put(t.Context(), measurement.Trial{
			ID: p.ID, Block: p.Block, Order: p.Order, Path: p.Path, Test: p.Test, Gate: measurement.Gate{Passed: true},
			Outcome: measurement.Outcome{Metrics: map[string]float64{"goodput_bits_per_second": value, "rtt_p50_seconds": value * 1e-12}},
		}))
	}
	testutil.OK(t, st.Close())
	report := func(args ...string) (r result.Result, notes string) {
		status, stdout, stderr := command(t, append([]string{"report", "run", "--json"}, args...)...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		testutil.OK(t, json.Unmarshal([]byte(stdout), &r))
		_, text, _ := command(t, append([]string{"report", "run"}, args...)...)
		return r, strings.Join(strings.Fields(text), " ")
	}
	own, text := report()
	if m := own.Experiment.Matters; m["rtt_p50_seconds"].Amount != 50e-6 || m["goodput_bits_per_second"].Fraction != 0.03 || strings.Contains(text, "judged again") {
		t.Errorf("the run's own margins are %v:\n%s", m, text)
	}
	if command := strings.Join(own.Command, " "); !strings.HasSuffix(command, " --matters goodput=3%,rtt_p50=50us,rtt_p99=50us") {
		t.Errorf("the command that repeats the run is %s", command)
	}
	again, text := report("--matters", "rtt_p50=1ms")
	if m := again.Experiment.Matters; m["rtt_p50_seconds"].Amount != 1e-3 || m["rtt_p99_seconds"].Amount != 50e-6 || m["goodput_bits_per_second"].Fraction != 0.03 {
		t.Errorf("judged again by %v", m)
	}
	if !strings.Contains(text, "RTT p50 was judged again: 1 ms is what matters") {
		t.Errorf("the report does not say that it was judged again:\n%s", text)
	}
	if back, _ := report(); len(back.Notes) != len(own.Notes) || back.Experiment.Matters["rtt_p50_seconds"].Amount != 50e-6 {
		t.Errorf("after judging again, the run's own margins are %v", back.Experiment.Matters)
	}
}
