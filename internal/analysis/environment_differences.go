package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/result"
)

// Differences says what else differs between two runs than what is compared:
// each may be why a figure changed.
func Differences(reference, run LabelledRun) []result.Note {
	a, b := reference.Result, run.Result
	var out []result.Note
	add := func(n result.Note) {
		n.Run, n.ReferenceRun = run.Label, reference.Label
		out = append(out, n)
	}
	differ := func(what, was, is string) {
		if was != is {
			add(result.Note{Code: result.NoteRunsDiffer, Name: what, Was: was, Is: is})
		}
	}
	differ("experiment", a.Experiment.Name, b.Experiment.Name)
	differ("testbed", a.Testbed.Kind, b.Testbed.Kind)
	for _, name := range []string{"host", "cpu_model", "cpus", "kernel", "hopbench"} {
		differ(name, a.Environment[name], b.Environment[name])
	}
	eachEnd(a.Testbed.Endpoints, b.Testbed.Endpoints, func(end string, first, now map[string]string) {
		for _, name := range differing(first, now) {
			differ(end+name, first[name], now[name])
		}
	})
	if was, is := cmp.Or(a.Experiment.Scale, 1), cmp.Or(b.Experiment.Scale, 1); was != is {
		add(result.Note{Code: result.NoteScalesDiffer, Scale: is, ReferenceScale: was})
	}
	for _, t := range a.Tests {
		for _, u := range b.Tests {
			if t.Name == u.Name && t.Spec != u.Spec {
				add(result.Note{Code: result.NoteTestsDiffer, Test: t.Name})
			}
		}
	}
	for _, p := range a.Paths {
		for _, q := range b.Paths {
			if p.Name == q.Name && fmt.Sprint(p.Hops) != fmt.Sprint(q.Hops) {
				add(result.Note{Code: result.NotePathsDiffer, Path: p.Name})
			}
		}
	}
	if hosts := a.Environment["host"] != b.Environment["host"] || a.Environment["cpu_model"] != b.Environment["cpu_model"]; hosts && (a.Testbed.Relative || b.Testbed.Relative) {
		add(result.Note{Code: result.NoteRelativeMachines})
	}
	return out
}

// SessionDifferences says in what the environments of a run's further sessions, and of the
// ends of its paths, differ from those of its first: each may be why trials differ.
func SessionDifferences(environment map[string]string, ends []result.TestbedEndpoint, sessions ...result.Session) []result.Note {
	var out []result.Note
	for _, s := range sessions {
		differ := func(end string, first, now map[string]string) {
			for _, name := range differing(first, now) {
				out = append(out, result.Note{Code: result.NoteResumedDiffers, Count: s.Trials, Started: s.Started, Name: end + name, Was: first[name], Is: now[name]})
			}
		}
		differ("", environment, s.Environment)
		eachEnd(ends, s.Endpoints, differ)
	}
	return out
}

// eachEnd calls a function for each end that says something of itself both times.
func eachEnd(first, now []result.TestbedEndpoint, differ func(end string, first, now map[string]string)) {
	for _, a := range first {
		for _, b := range now {
			if a.Name == b.Name && len(a.Environment) > 0 && len(b.Environment) > 0 {
				differ(a.Name+": ", a.Environment, b.Environment)
			}
		}
	}
}

// differing are the names of what differs between two environments.
func differing(first, now map[string]string) []string {
	both := make(map[string]string)
	maps.Copy(both, first)
	maps.Copy(both, now)
	delete(both, "host_load_average") // it is never the same
	maps.DeleteFunc(both, func(name, _ string) bool { return first[name] == now[name] })
	return slices.Sorted(maps.Keys(both))
}
