package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
)

// What measures nothing tells its steps, too, and how it ended.
func TestEventsOfReading(t *testing.T) {
	kept := begun(t, nil)
	good, slow := writeRun(t, 0.356e9), writeRun(t, 0.2e9)
	for line, want := range map[string][]string{
		"report " + kept: {"note report of " + kept, "note 1 trial analysed", "note " + kept + "/report.html", "note " + kept + "/result.json", "run-ended"},
		"export " + kept: {"note export of " + kept, "note 1 trial to export", "note " + kept + "/run.xlsx", "run-ended"},
		"compare " + good + " " + slow + " --fail-on cost": {"note comparison of ", "note " + good + " read", "note " + slow + " read", "warning B compared with A: ", "run-ended"},
		"report " + t.TempDir() + "/none":                  {"note report of ", "run-ended read the run: "},
		"testbed restore none.yaml":                        {"note restore of none.yaml", "run-ended read the testbed: "},
		"export " + kept + " --trial none":                 {"note export of ", `run-ended the run has no trial "none"`},
	} {
		_, out, _ := command(t, append(strings.Fields(line), "--events", "-")...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i, text := range lines {
			var e event.Event
			if err := json.Unmarshal([]byte(text), &e); err != nil || (e.Format == event.Format) != (i == 0) || e.Number != int64(i+1) || (e.End != nil) != (i == len(lines)-1) {
				t.Fatalf("%s: line %d: %v\n%s", line, i+1, err, out)
			}
			lines[i] = string(e.Code) + " " + e.Text
			if e.End != nil {
				lines[i] += e.End.Why
				if e.End.Complete != (e.End.Why == "") {
					t.Errorf("%s: complete %v, %q", line, e.End.Complete, e.End.Why)
				}
			}
		}
		for _, w := range want {
			if len(lines) == 0 || !strings.HasPrefix(lines[0], w) && w == want[0] {
				t.Fatalf("%s: no %q first, but\n%s", line, w, strings.Join(lines, "\n"))
			}
			i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, w) })
			if i < 0 {
				t.Errorf("%s: no %q (in this order) in\n%s", line, w, out)
				break
			}
			lines = lines[i:]
		}
	}
	for _, line := range []string{
		"export " + kept + " --format csv -o " + kept + "/run.sqlite",
		"export " + kept + " -o " + kept + "/trials.csv",
		"report " + kept + " --events " + kept + "/result.json",
		"results --history " + kept + " --html " + kept + "/report.html",
		"results --history " + kept + " --html watch.sqlite",
	} {
		if status, _, stderr := command(t, strings.Fields(line)...); status != base.ExitUsage || !strings.Contains(stderr, "choose another") {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
	}
	if status, _, stderr := command(t, "export", kept, "--format", "csv", "-o", "-", "--events", "-"); status != base.ExitUsage || !strings.Contains(stderr, "both want standard output") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
