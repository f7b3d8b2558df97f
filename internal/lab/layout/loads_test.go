package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/strict"
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

// hopKey is a key of a hop with a value that is good by itself, or with the key that it needs.
type hopKey struct{ name, value, needs string }

// hopKeys are the keys of a hop that say what it does, each with a value that is not its
// default.
func hopKeys(t *testing.T) []hopKey {
	t.Helper()
	needs := map[string]string{"jitter": "delay", "reorder_by": "reorder", "queue": "rate"}
	values := map[reflect.Type]string{
		reflect.TypeFor[bool](): "true", reflect.TypeFor[strict.TimeText](): "1ms", reflect.TypeFor[strict.FractionText](): "1%",
		reflect.TypeFor[strict.RateText](): "1Mbit", reflect.TypeFor[strict.SizeText](): "1400B",
		reflect.TypeFor[strict.LineText](): "missing.rules", reflect.TypeFor[*experiment.FileScaleOut](): "{at: 1s, instances: 15}",
	}
	hop := reflect.TypeFor[experiment.FileHop]()
	var keys []hopKey
	for i, name := range strict.KeysOf(hop) {
		if name == "type" || name == "name" {
			continue
		}
		field := hop.Field(i)
		value := values[field.Type]
		for rule := range strings.SplitSeq(field.Tag.Get("jsonschema"), ",") {
			if last, found := strings.CutPrefix(rule, "enum="); found {
				value = last
			}
			if least, found := strings.CutPrefix(rule, "minimum="); found {
				n, err := strconv.Atoi(least)
				testutil.OK(t, err)
				value = strconv.Itoa(n + 9)
			}
		}
		if value == "" {
			t.Errorf("no value of the key %s, %v, is known", name, field.Type)
		}
		keys = append(keys, hopKey{name, value, needs[name]})
	}
	return keys
}

// What a file says of a hop is not read and then forgotten: each key of each type that
// takes it changes what the lab builds.
func TestEveryKeyOfAHopChangesTheLab(t *testing.T) {
	lay := func(hop string) string {
		t.Helper()
		text := "format: hopbench.experiment/1\nname: key\nsource: a\ndestination: b\nbaseline: p\n" +
			"endpoints: [{name: a}, {name: b}]\ntests: [{name: t, kind: rr}]\npaths:\n" +
			"  - {name: p, hops: [{type: link}]}\n  - {name: q, hops: [" + hop + "]}\n"
		e, err := experiment.Load("key.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", hop, err)
		}
		built, paths, err := FromExperiment(e)
		if err != nil {
			return err.Error() // the file of rules that is not there
		}
		lab, err := json.Marshal([]any{built, paths})
		testutil.OK(t, err)
		return string(lab)
	}
	values := make(map[string]string)
	for _, key := range hopKeys(t) {
		values[key.name] = key.value
		for _, hopType := range experiment.HopTypesOf(key.name) {
			hop := fmt.Sprintf("{type: %s, name: h", hopType)
			if key.needs != "" {
				hop += fmt.Sprintf(", %s: %s", key.needs, values[key.needs])
			}
			if without, with := lay(hop+"}"), lay(fmt.Sprintf("%s, %s: %s}", hop, key.name, key.value)); without == with {
				t.Errorf("the lab of a %s is the same with %s: %s", hopType, key.name, key.value)
			}
		}
	}
}

// randomExperiment has paths of any hops, with a fifth of the keys that each may
// have, and variants that bypass any of them.
func randomExperiment(random *rand.Rand, keys []hopKey) string {
	var b strings.Builder
	some := func(key, value string) bool {
		written := random.IntN(5) == 0
		if written {
			fmt.Fprintf(&b, ", %s: %s", key, value)
		}
		return written
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
			written := make(map[string]bool)
			for _, key := range keys {
				// A file of rules that is not there ends the build too soon.
				if key.name != "rule_file" && (key.needs == "" || written[key.needs]) && slices.Contains(experiment.HopTypesOf(key.name), hopType) {
					written[key.name] = some(key.name, key.value)
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
	random, keys := rand.New(rand.NewPCG(3, 4)), hopKeys(t)
	loaded := 0
	for range 400 {
		text := randomExperiment(random, keys)
		if e, err := experiment.Load("random.yaml", []byte(text)); err == nil {
			loaded++
			builds(t, e, text)
		}
	}
	if loaded < 100 {
		t.Errorf("only %d of 400 load", loaded)
	}
}
