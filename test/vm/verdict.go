package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/test/vm/report"
)

// verdict collects what the machine reports and judges it.
type verdict struct {
	suites   []suite
	w        io.Writer
	current  int      // suite that runs
	lines    []string // what it printed so far
	reached  int      // suites that ended
	done     bool
	count    map[report.Outcome]int // of tests
	problems []string
}

func (v *verdict) problem(format string, arguments ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, arguments...))
}

// take is called for each event.
func (v *verdict) take(e report.Event) {
	if e.Kind != report.Done && (e.Job < 0 || e.Job >= len(v.suites)) {
		v.problem("the machine reports on job %d, which it was not given", e.Job)
		return
	}
	switch e.Kind {
	case report.Started:
		v.current, v.lines = e.Job, nil
	case report.Printed:
		v.lines = append(v.lines, e.Text)
	case report.Ended:
		v.judge(v.suites[e.Job], e)
		v.current, v.lines = e.Job+1, nil
		v.reached++
	case report.Done:
		v.done = true
	default:
		v.problem("the machine reports %q", e.Kind)
	}
}

// finish is called when nothing more will come.
func (v *verdict) finish() {
	if len(v.lines) > 0 && v.current < len(v.suites) {
		s := v.suites[v.current]
		v.judge(s, report.Event{Text: "it was still running"})
		v.reached++
	}
	for _, s := range v.suites[min(v.reached, len(v.suites)):] {
		v.problem("%s: did not run", s.name)
	}
	if !v.done {
		v.problem("the machine went down before it was done")
	}
}

// judge looks at a suite that ended: e says how.
func (v *verdict) judge(s suite, e report.Event) {
	fmt.Fprintf(v.w, "\n%s, user %d\n", s.name, s.user)
	switch {
	case e.Text != "":
		v.problem("%s: %s", s.name, e.Text)
	case e.Status != 0:
		v.problem("%s: ended with status %d", s.name, e.Status)
	}
	if s.pkg == "" {
		v.judgeOutput(s)
		return
	}
	results, rest := report.Tests(v.lines)
	seen := make(map[string]bool)
	for _, r := range results {
		seen[r.Name] = true
		v.judgeTest(s, r)
	}
	for _, name := range s.tests {
		if !seen[name] {
			v.problem("%s: %s has no result", s.name, name)
		}
	}
	if e.Text != "" || e.Status != 0 {
		v.quote(rest)
	}
}

func (v *verdict) judgeTest(s suite, r report.Result) {
	if slices.Contains(s.tests, r.Name) || r.Outcome != report.Pass { // subtests only if something is wrong
		fmt.Fprintf(v.w, "  %s %6.2f s  %s\n", r.Outcome, r.Seconds, r.Name)
		v.count[r.Outcome]++
	}
	switch r.Outcome {
	case report.Skip:
		v.problem("%s: %s was skipped", s.name, r.Name)
		v.quote(r.Output)
	case report.Fail:
		v.problem("%s: %s failed", s.name, r.Name)
		v.quote(r.Output)
	}
}

// judgeOutput shows what a program of the product said.
func (v *verdict) judgeOutput(s suite) {
	v.quote(v.lines)
	text := strings.Join(v.lines, "\n") + "\n"
	for _, want := range s.says {
		if !strings.Contains(text, want) {
			v.problem("%s: does not say %q", s.name, want)
		}
	}
	for _, bad := range s.never {
		if strings.Contains(text, bad) {
			v.problem("%s: says %q", s.name, bad)
		}
	}
}

func (v *verdict) quote(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(v.w, "    |", line)
	}
}

// troubles are what the kernel says when it found something wrong with itself.
var troubles = []string{"Kernel panic", "Oops", "BUG:", "WARNING: ", "Call Trace", "Out of memory", "blocked for more than", "guest:"}

// kernel judges the console.
func (v *verdict) kernel(console string) {
	for line := range strings.Lines(console) {
		for _, t := range troubles {
			if strings.Contains(line, t) {
				v.problem("console: %s", strings.TrimSpace(line))
				break
			}
		}
	}
}
