// Package report is what the virtual machine of test/vm tells the program that
// started it: one JSON object a line over a serial line of its own, so that the
// kernel's messages, which take another, cannot get between.
package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
)

// Job is a program that the machine runs.
type Job struct {
	Name    string        `json:"name"`
	Argv    []string      `json:"argv"`
	Dir     string        `json:"dir"`
	User    uint32        `json:"user"` // user and group id
	Timeout time.Duration `json:"timeout"`
	// Systemd says that it runs under systemd, which takes the machine over after all
	// jobs that do not.
	Systemd bool `json:"systemd"`
}

// Kind says what an event is about.
type Kind string

// The kinds of events, in the order in which they come.
const (
	Started Kind = "started" // Job begins
	Printed Kind = "printed" // Job wrote Text to its output
	Ended   Kind = "ended"   // Job is over: Status, or why there is none in Text
	Done    Kind = "done"    // all jobs are, and the machine goes down
)

// Event is one line. Job is the index of the job.
type Event struct {
	Kind   Kind   `json:"kind"`
	Job    int    `json:"job"`
	Text   string `json:"text,omitempty"`
	Status int    `json:"status,omitempty"`
}

// maxEvent bounds a line in bytes, MaxText what a program may print in one. The
// encoding of a byte takes at most six.
const (
	MaxText  = 8 << 10
	maxEvent = 6*MaxText + 1<<10
)

// Read calls f for every event until the machine hangs up. An error is a line
// that is none, or too long.
func Read(r io.Reader, f func(Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("the machine said %.200q: %w", lines.Text(), err)
		}
		f(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what the machine says: %w", err)
	}
	return nil
}

// Outcome is that of a test.
type Outcome string

// The outcomes, as the testing package prints them.
const (
	Pass Outcome = "PASS"
	Fail Outcome = "FAIL"
	Skip Outcome = "SKIP"
)

// Result is that of one test or subtest.
type Result struct {
	Name    string
	Outcome Outcome
	Seconds float64
	Output  []string // what it and its subtests printed
}

// A test binary started with -test.v=test2json marks what the testing package
// itself prints by a SYN character (cmd/internal/test2json of the Go sources),
// so that a test's output cannot be taken for a result.
var (
	frame   = regexp.MustCompile(`^\x16=== (RUN|PAUSE|CONT|NAME) +(\S*)$`)
	verdict = regexp.MustCompile(`^\x16--- (PASS|FAIL|SKIP): (\S+) \((\d+(?:\.\d+)?)s\)$`)
)

// Tests finds the results in the lines that a test binary printed. rest is what
// belongs to no test.
func Tests(lines []string) (results []Result, rest []string) {
	printed := make(map[string][]string)
	current := ""
	for _, line := range lines {
		if m := frame.FindStringSubmatch(line); m != nil {
			current = m[2]
			continue
		}
		if m := verdict.FindStringSubmatch(line); m != nil {
			current = m[2]
			seconds, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				seconds = 0 // more digits than a float64 has
			}
			results = append(results, Result{Name: current, Outcome: Outcome(m[1]), Seconds: seconds})
			continue
		}
		if current == "" {
			rest = append(rest, line)
			continue
		}
		printed[current] = append(printed[current], line)
	}
	for i, r := range results {
		results[i].Output = printed[r.Name]
	}
	return results, rest
}
