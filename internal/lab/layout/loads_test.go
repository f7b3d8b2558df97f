package layout

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/testutil"
)

// builds checks that the lab can build what was loaded.
func builds(t *testing.T, e *experiment.Experiment, text string) {
	t.Helper()
	built, paths, err := FromExperiment(e.Scaled())
	if err == nil {
		_, err = plan.Of(built)
	}
	if missing := new(RuleFileError); errors.As(err, &missing) {
		return // a file next to the experiment
	}
	if err != nil || len(paths) != len(e.Paths) {
		t.Fatalf("%d of %d paths, %v:\n%s", len(paths), len(e.Paths), err, text)
	}
}

func TestFilesThatLoadCanBeBuilt(t *testing.T) {
	files, _ := filepath.Glob("../../experiment/testdata/good/*.yaml")
	bundled, _ := filepath.Glob("../../../experiments/*.yaml")
	loaded := 0
	for _, file := range append(files, bundled...) {
		text, err := os.ReadFile(file)
		testutil.OK(t, err)
		if e, err := experiment.Load(file, text); err == nil {
			loaded++
			builds(t, e, file)
		}
	}
	if loaded < 15 {
		t.Errorf("%d files load", loaded)
	}
}

// hopKeys are keys of hops with values that are good by themselves.
var hopKeys = map[string]string{
	"delay": "1ms", "loss": "1%", "reorder": "1%, reorder_by: 1ms", "rate": "1Mbit, queue: 10kB", "per_flow_rate": "1Mbit", "mtu": "1400B", "measure_kernel_cpu": "true",
	"silent": "true", "one_way": "true", "rules": "3", "instances": "3", "scale_out": "{at: 1s, instances: 5}", "mode": "deny",
	"inspect_rate": "1Mbit", "translate": "both", "silent_hops": "2", "backends": "3", "flow_limit": "1000",
}

// randomExperiment has paths of any hops, with a fifth of the keys that each may
// have, and variants that bypass any of them.
func randomExperiment(random *rand.Rand) string {
	var b strings.Builder
	some := func(key, value string) {
		if random.IntN(5) == 0 {
			fmt.Fprintf(&b, ", %s: %s", key, value)
		}
	}
	b.WriteString("format: hopbench.experiment/1\nname: random\nsource: a\ndestination: b\nbaseline: p0\nendpoints:\n")
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&b, "  - {name: %s", name)
		some("egress_rate", "1Mbit")
		some("nics", "2")
		if random.IntN(20) == 0 {
			b.WriteString(", vswitch: true")
		}
		b.WriteString("}\n")
	}
	if random.IntN(5) == 0 {
		b.WriteString("pairs: 3\n")
	}
	b.WriteString("tests: [{name: t, kind: rr}]\npaths:\n")
	for i := range 2 {
		fmt.Fprintf(&b, "  - name: p%d\n", i)
		if random.IntN(4) == 0 {
			fmt.Fprintf(&b, "    tunnel: {type: vxlan, id: %d}\n", i+1)
		}
		b.WriteString("    hops:\n")
		for h := range 1 + random.IntN(5) {
			types := experiment.HopTypes()
			hopType := types[random.IntN(len(types))]
			fmt.Fprintf(&b, "      - {type: %s, name: h%d", hopType, h)
			for _, key := range slices.Sorted(maps.Keys(hopKeys)) {
				if slices.Contains(experiment.HopTypesOf(key), hopType) {
					some(key, hopKeys[key])
				}
			}
			b.WriteString("}\n")
		}
	}
	for i := range random.IntN(3) {
		fmt.Fprintf(&b, "  - {name: v%d, variant_of: p%d, bypass: [h%d]}\n", i, random.IntN(2), random.IntN(3))
	}
	return b.String()
}

// Rules about hops that go together are the loader's: the lab can build whatever
// it accepts.
func TestWhateverLoadsCanBeBuilt(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	loaded := 0
	for range 400 {
		text := randomExperiment(random)
		if e, err := experiment.Load("random.yaml", []byte(text)); err == nil {
			loaded++
			builds(t, e, text)
		}
	}
	if loaded < 100 {
		t.Errorf("only %d of 400 load", loaded)
	}
}
