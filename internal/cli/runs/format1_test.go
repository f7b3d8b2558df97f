package runs_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// command runs a command line and returns its status and what it wrote.
func command(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Main(args, nil, &out, &errs)
	return status, out.String(), errs.String()
}

// formatOne is a run folder of two paths, 8 blocks, ping and tcp that a hopbench
// of format 1 wrote.
func formatOne(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{store.FileName, runs.ResultFile} {
		packed, err := os.Open(filepath.Join("testdata", "format1", name+".gz"))
		testutil.OK(t, err)
		defer packed.Close()
		unpacked, err := gzip.NewReader(packed)
		testutil.OK(t, err)
		text, err := io.ReadAll(unpacked)
		testutil.OK(t, err)
		testutil.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir
}

// What format 1 says of a run in numbers, its reader of today says too: from the
// stored trials, and from result.json alone. Costs are judged by today's rules, so
// their estimates stay, and there are more of them.
func TestFormatOneOpens(t *testing.T) {
	dir := formatOne(t)
	text, err := os.ReadFile(filepath.Join(dir, runs.ResultFile))
	testutil.OK(t, err)
	var old map[string]any
	testutil.OK(t, json.Unmarshal(text, &old))
	kept := filepath.Join(t.TempDir(), "kept.json")
	testutil.OK(t, os.WriteFile(kept, text, 0o644))
	alone, err := runs.Read(kept)
	testutil.OK(t, err)
	status, stdout, stderr := command("report", dir, "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || !strings.Contains(string(page), "the source's egress cap") {
		t.Errorf("the report says nothing of the attribution (%v):\n%s", err, page)
	}
	again, err := json.Marshal(alone)
	testutil.OK(t, err)
	for name, document := range map[string][]byte{"of the folder": []byte(stdout), "of result.json": again} {
		var now map[string]any
		testutil.OK(t, json.Unmarshal(document, &now))
		if now["format"] != result.Format {
			t.Errorf("%s: the format is %v", name, now["format"])
		}
		same(t, name+": ", old, now)
		sameFindings(t, text, document)
	}
	if status, stdout, stderr := command("compare", dir); status != 0 || !strings.Contains(stdout, "E1") {
		t.Errorf("compare: status %d: %s%s", status, stdout, stderr)
	}
	// The run is the same in its folder and in the document, whose hops had other names.
	if status, stdout, stderr := command("compare", dir, kept); status != 0 || strings.Contains(stdout, "does not have the same hops") {
		t.Errorf("compare: status %d: %s%s", status, stdout, stderr)
	}
}

// wider holds that an end of an interval has not moved inwards: what one trial cannot know
// is in it today.
func wider(t *testing.T, at string, old, now any) {
	t.Helper()
	was, numbers := old.(float64)
	is, both := now.(float64)
	if low := strings.HasSuffix(at, "low"); !numbers || !both || low && is > was || !low && is < was {
		t.Errorf("%s is %v, was %v", at, now, old)
	}
}

// same holds that now has what old has, but for what format 2 dropped or named
// otherwise.
func same(t *testing.T, at string, old, now any) {
	t.Helper()
	renamed := map[string]string{"same_as": "variant_of", "off": "bypassed"}
	dropped := map[string]bool{"format": true, "sentence": true, "reason": true, "notes": true, "gate": true,
		"verdict": true, "bound": true, "smallest_effect": true, "beyond_chance": true, "p": true, "p_holm": true, "blocks_needed": true,
		"shares": true, "judgement": true} // what limits a rate, and how far it is off, is told by the rules of today
	switch old := old.(type) {
	case map[string]any:
		have, ok := now.(map[string]any)
		if !ok {
			t.Errorf("%s is %v, was an object", at, now)
			return
		}
		for name, v := range old {
			if dropped[name] {
				continue
			}
			if renamed[name] != "" {
				name = renamed[name]
			}
			if strings.HasSuffix(name, "low") || strings.HasSuffix(name, "high") {
				wider(t, at+"."+name, v, have[name])
				continue
			}
			same(t, at+"."+name, v, have[name])
		}
	case []any:
		have, _ := now.([]any)
		if strings.HasSuffix(at, ".costs") {
			have = slices.DeleteFunc(slices.Clone(have), func(cost any) bool {
				return !slices.ContainsFunc(old, func(was any) bool { return costKey(was) == costKey(cost) })
			})
		}
		if len(have) != len(old) {
			t.Errorf("%s has %d elements, had %d", at, len(have), len(old))
			return
		}
		for i := range old {
			same(t, at, old[i], have[i])
		}
	default:
		if old != now && !(old == "cable" && now == "link") {
			t.Errorf("%s is %v, was %v", at, now, old)
		}
	}
}

func costKey(cost any) [3]any {
	c := cost.(map[string]any)
	return [3]any{c["path"], c["test"], c["metric"]}
}

// sameFindings holds that the sentences of gates are still said.
func sameFindings(t *testing.T, old, now []byte) {
	t.Helper()
	var was struct {
		Trials []struct {
			Gate struct {
				Passed bool
				Checks []struct {
					Name, Reason string
					Fatal        bool
				}
			}
		}
	}
	var is result.Result
	testutil.OK(t, errors.Join(json.Unmarshal(old, &was), json.Unmarshal(now, &is)))
	compared := 0
	for i, trial := range was.Trials {
		gate := is.Trials[i].Gate
		if gate.Passed != trial.Gate.Passed || len(gate.Findings) != len(trial.Gate.Checks) {
			t.Fatalf("trial %d: %+v, was %+v", i, gate, trial.Gate)
		}
		for j, c := range trial.Gate.Checks {
			if f := gate.Findings[j]; f.Name != c.Name || f.Fatal != c.Fatal || words.Finding(f) != c.Reason {
				t.Errorf("trial %d: %+v, was %+v", i, f, c)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Error("no gate of the old run found anything")
	}
}

// Its trials stay those of format 1 in what is written of them today: what cannot be
// compared with others of today still is not.
func TestFormatOneStaysOld(t *testing.T) {
	dir := formatOne(t)
	for _, args := range [][]string{{"report", dir}, {"report", dir, "--matters", "rtt=1ms"}} {
		if status, _, stderr := command(args...); status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, stderr)
		}
		status, stdout, stderr := command("compare", filepath.Join(dir, runs.ResultFile), dir)
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "1 flow: not compared between A and B. One of them is of format 1") {
			t.Errorf("after %q: status %d: %s%s", args, status, stdout, stderr)
		}
	}
	r, err := runs.Read(filepath.Join(dir, runs.ResultFile))
	if err != nil || !r.OldFormat {
		t.Errorf("what is written of an old run does not say so (%v)", err)
	}
}

// One run does not mix trials of two formats, and the folder stays as it was.
func TestFormatOneIsNotResumed(t *testing.T) {
	dir := formatOne(t)
	before, err := os.ReadFile(filepath.Join(dir, store.FileName))
	testutil.OK(t, err)
	status, _, stderr := command("run", "--resume", dir)
	if status != 2 || !strings.Contains(stderr, "older hopbench") || !strings.Contains(stderr, "start a new run") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if after, err := os.ReadFile(filepath.Join(dir, store.FileName)); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed (%v)", err)
	}
}

// An experiment file that is no longer understood does not hide an old run.
func TestFormatOneWithoutItsExperiment(t *testing.T) {
	dir := formatOne(t)
	st, err := store.Open(dir)
	testutil.OK(t, err)
	defer st.Close()
	if !st.Old() {
		t.Error("the run is not an old one")
	}
	head, err := st.Head()
	testutil.OK(t, err)
	head.Experiment = "format: hopbench.experiment/0\n"
	r, err := runs.ResultOf(st, head, nil)
	if err != nil || len(r.Costs) == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}
