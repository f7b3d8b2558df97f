package script_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// measure runs an experiment and returns its trials by path and test. All of
// them must have passed their gates.
func measure(t *testing.T, experiment string) map[[2]string]measurement.Trial {
	t.Helper()
	ok, err := have("lab")
	testutil.Need(t, ok && err == nil, fmt.Sprintf("a machine on which labs can be made (%v)", err))
	folder := t.TempDir()
	file := filepath.Join(folder, "experiment.yaml")
	testutil.OK(t, os.WriteFile(file, []byte(experiment), 0o644))
	out := filepath.Join(folder, "run")
	if text, err := exec.Command(build(t), "run", file, "--blocks", "1", "--seed", "1", "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	testutil.OK(t, err)
	var r result.Result
	testutil.OK(t, json.Unmarshal(text, &r))
	trials := make(map[[2]string]measurement.Trial)
	for _, trial := range r.Trials {
		if !trial.Gate.Passed {
			t.Errorf("%s did not pass its gates: %+v, path %+v", trial.ID, trial.Gate.Findings, trial.Fingerprint)
		}
		trials[[2]string{trial.Path, trial.Test}] = trial
	}
	return trials
}

// A cap on each flow holds one flow back and not the others, also inside a
// tunnel, whose outer ports spread the flows; the fingerprint proves the tunnel
// and the path below it.
func TestFlowsAndTunnels(t *testing.T) {
	const limit = 20e6
	trials := measure(t, `format: hopbench.experiment/1
name: flows-and-tunnels
endpoints:
  - {name: a, vswitch: true}
  - {name: b}
source: a
destination: b
baseline: native
paths:
  - name: native
    hops: [{type: link, delay: 200us}, {type: router, name: box, per_flow_rate: 20Mbit}]
  - name: inside
    tunnel: {type: vxlan, id: 7}
    hops: [{type: link, delay: 200us}, {type: router, name: box, per_flow_rate: 20Mbit}]
tests:
  - {name: one, kind: tcp, duration: 2s, max_warmup: 500ms}
  - {name: eight, kind: tcp, flows: 8, duration: 2s, max_warmup: 500ms}
  - {name: latency, kind: rr, protocol: udp, duration: 1s}
`)
	for _, path := range []string{"native", "inside"} {
		one := trials[[2]string{path, "one"}].Metrics["goodput_bits_per_second"]
		eight := trials[[2]string{path, "eight"}].Metrics["goodput_bits_per_second"]
		t.Logf("%s: %.1f Mbit/s with 1 flow, %.1f with 8", path, one/1e6, eight/1e6)
		// What waited in the queue of the cap, 50 ms, may arrive within the measured
		// 2 s, and what the receiver of a busy machine read late.
		if one > 1.1*limit || eight > 8*1.1*limit {
			t.Errorf("%s: %.0f and %.0f bit/s pass a cap of %.0f for each flow", path, one, eight, limit)
		}
		if eight < 1.5*limit {
			t.Errorf("%s: eight flows get %.0f bit/s where each may have %.0f", path, eight, limit)
		}
	}
	for _, flow := range trials[[2]string{"native", "eight"}].Flows {
		if got := float64(flow.ReceivedBytes) * 8 / 2; got > 1.1*limit {
			t.Errorf("the flow from %s got %.0f bit/s", flow.Source, got)
		}
	}
	for test, least := range map[string]int{"one": 1, "eight": 2} {
		outer, err := strconv.Atoi(trials[[2]string{"inside", test}].Effective["outer_flows_count"])
		t.Logf("%s: %d outer flows", test, outer)
		if err != nil || outer < least {
			t.Errorf("%s: %d outer flows were seen (%v), want at least %d", test, outer, err, least)
		}
		if seen, found := trials[[2]string{"native", test}].Effective["outer_flows_count"]; found {
			t.Errorf("%s: %s outer flows without a tunnel", test, seen)
		}
	}
	for _, test := range []string{"one", "latency"} {
		f := trials[[2]string{"inside", test}].Fingerprint
		if f == nil || len(f.Hops) != 1 || len(f.OuterHops) != 2 || f.ReceivedTTL != 64 {
			t.Errorf("%s inside: %+v", test, f)
		}
		if f := trials[[2]string{"native", test}].Fingerprint; f == nil || len(f.Hops) != 2 || f.OuterHops != nil || f.ReceivedTTL != 63 {
			t.Errorf("%s native: %+v", test, f)
		}
	}
	if f := trials[[2]string{"inside", "one"}].Fingerprint; f.PathMTU != 1450 || f.MSS != 1398 {
		t.Errorf("TCP found a path MTU of %d and an MSS of %d inside", f.PathMTU, f.MSS)
	}
}
