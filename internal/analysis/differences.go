package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// Differences says what else differs between two runs than what is compared:
// each may be why a figure changed.
func Differences(reference, run LabelledRun) []string {
	a, b := reference.Result, run.Result
	var out []string
	add := func(what, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("%s and %s differ in their %s: %s against %s.", reference.Label, run.Label, what, cmp.Or(x, "unknown"), cmp.Or(y, "unknown")))
		}
	}
	add("experiment", a.Experiment.Name, b.Experiment.Name)
	add("testbed", a.Testbed.Kind, b.Testbed.Kind)
	for _, name := range []string{"host", "cpu_model", "cpus", "kernel", "hopbench"} {
		add(name, a.Environment[name], b.Environment[name])
	}
	if x, y := scaleOf(a), scaleOf(b); x != y {
		out = append(out, fmt.Sprintf("%s is at 1:%s and %s at 1:%s: rates are compared multiplied by their scales.",
			reference.Label, quantity.Number(x, 0), run.Label, quantity.Number(y, 0)))
	}
	for _, t := range a.Tests {
		for _, u := range b.Tests {
			if t.Name == u.Name && t.Spec != u.Spec {
				out = append(out, fmt.Sprintf("Test %s was not done in the same way in %s and %s.", t.Name, reference.Label, run.Label))
			}
		}
	}
	for _, p := range a.Paths {
		for _, q := range b.Paths {
			if p.Name == q.Name && fmt.Sprint(p.Hops) != fmt.Sprint(q.Hops) {
				out = append(out, fmt.Sprintf("Path %s does not have the same hops in %s and %s.", p.Name, reference.Label, run.Label))
			}
		}
	}
	if hosts := a.Environment["host"] != b.Environment["host"] || a.Environment["cpu_model"] != b.Environment["cpu_model"]; hosts && (a.Testbed.Relative || b.Testbed.Relative) {
		out = append(out, "Figures of such a testbed measure its machine as much as the path: between two machines only costs, the ratio of a path to the baseline, can be compared, and not these changes.")
	}
	return out
}

// SessionDifferences says in what the environments of a run's further sessions
// differ from that of its first: each may be why trials differ.
func SessionDifferences(first map[string]string, sessions ...result.Session) []string {
	var out []string
	for _, s := range sessions {
		both := make(map[string]string)
		maps.Copy(both, first)
		maps.Copy(both, s.Environment)
		delete(both, "host_load_average") // it is never the same
		for _, name := range slices.Sorted(maps.Keys(both)) {
			if was, is := first[name], s.Environment[name]; was != is {
				out = append(out, fmt.Sprintf("After %s the run was resumed (%s) with another %s: %s, at first %s.", quantity.Count(s.Trials, "trial"),
					s.Started.UTC().Format("2006-01-02 15:04 UTC"), name, cmp.Or(is, "unknown"), cmp.Or(was, "unknown")))
			}
		}
	}
	return out
}
