package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/test/vm/report"
)

// said are the events of one job that prints lines and ends.
func said(job, status int, lines ...string) []report.Event {
	events := []report.Event{{Kind: report.Started, Job: job}}
	for _, line := range lines {
		events = append(events, report.Event{Kind: report.Printed, Job: job, Text: strings.ReplaceAll(line, "^", "\x16")})
	}
	return append(events, report.Event{Kind: report.Ended, Job: job, Status: status})
}

// Whatever a machine does but run every test to its end is a problem.
func TestVerdict(t *testing.T) {
	suites := []suite{
		{name: "tests", pkg: "p", tests: []string{"TestA", "TestB"}},
		{name: "command", says: []string{"wanted"}, never: []string{"refused"}},
	}
	tests := said(0, 0, "^--- PASS: TestA (0.10s)", "^--- PASS: TestB (0.00s)")
	program := said(1, 0, "all that is wanted")
	done := []report.Event{{Kind: report.Done}}
	for name, c := range map[string]struct {
		events  [][]report.Event
		console string
		want    []string
	}{
		"good":           {events: [][]report.Event{tests, program, done}},
		"failed":         {events: [][]report.Event{said(0, 1, "^--- PASS: TestA (0.10s)", "^--- FAIL: TestB (0.00s)"), program, done}, want: []string{"tests: ended with status 1", "tests: TestB failed"}},
		"skipped":        {events: [][]report.Event{said(0, 0, "^--- SKIP: TestA (0.10s)", "^--- PASS: TestB (0.00s)"), program, done}, want: []string{"tests: TestA was skipped"}},
		"subtest":        {events: [][]report.Event{append(said(0, 0, "^--- SKIP: TestA/x (0.10s)", "^--- PASS: TestA (0.00s)", "^--- PASS: TestB (0.00s)"), program...), done}, want: []string{"tests: TestA/x was skipped"}},
		"no result":      {events: [][]report.Event{said(0, 0, "^--- PASS: TestA (0.10s)"), program, done}, want: []string{"tests: TestB has no result"}},
		"forged":         {events: [][]report.Event{said(0, 0, "^--- PASS: TestA (0.10s)", "--- PASS: TestB (0.00s)"), program, done}, want: []string{"tests: TestB has no result"}},
		"command":        {events: [][]report.Event{tests, said(1, 0, "refused"), done}, want: []string{`command: does not say "wanted"`, `command: says "refused"`}},
		"time-out":       {events: [][]report.Event{tests, {{Kind: report.Started, Job: 1}, {Kind: report.Ended, Job: 1, Text: "not over"}}, done}, want: []string{"command: not over", `command: does not say "wanted"`}},
		"machine lost":   {events: [][]report.Event{tests}, want: []string{"command: did not run", "the machine went down before it was done"}},
		"lost in a test": {events: [][]report.Event{tests[:2]}, want: []string{"tests: it was still running", "tests: TestB has no result", "command: did not run", "the machine went down before it was done"}},
		"unknown job":    {events: [][]report.Event{tests, program, said(2, 0)[:1], done}, want: []string{"the machine reports on job 2, which it was not given"}},
		"panic":          {events: [][]report.Event{tests, program, done}, console: "[ 1.0] fine\n[ 2.0] Kernel panic - not syncing\n", want: []string{"console: [ 2.0] Kernel panic - not syncing"}},
	} {
		v := verdict{suites: suites, w: io.Discard, count: map[report.Outcome]int{}}
		for _, events := range c.events {
			for _, e := range events {
				v.take(e)
			}
		}
		v.finish()
		v.kernel(c.console)
		if !reflect.DeepEqual(v.problems, c.want) {
			t.Errorf("%s: got %q, want %q", name, v.problems, c.want)
		}
	}
}

func TestKernelDependency(t *testing.T) {
	shown := "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\nSection: kernel\n"
	m := kernelDependency.FindStringSubmatch(shown)
	if want := []string{"linux-image-6.1.0-56-cloud-amd64", "6.1.0-56-cloud-amd64", "6.1.192-2"}; m == nil || !reflect.DeepEqual(m[1:], want) {
		t.Errorf("got %q", m)
	}
	for _, other := range []string{"Depends: linux-image-../../x (= 1)", "Pre-Depends: x", ""} {
		if m := kernelDependency.FindStringSubmatch(other); m != nil {
			t.Errorf("%q gives %q", other, m)
		}
	}
}

// Every list of the suites has its reasons.
func TestSuites(t *testing.T) {
	for _, s := range allSuites() {
		if s.name == "" || s.timeout <= 0 || (s.pkg == "") == (len(s.argv) == 0 && s.program == "") {
			t.Errorf("%+v is neither tests nor a command, or has no bound", s)
		}
		for name, reason := range s.except {
			if reason == "" {
				t.Errorf("%s: %s has no reason", s.name, name)
			}
		}
	}
}
