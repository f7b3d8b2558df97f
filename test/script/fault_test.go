package script_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/words"
)

// inTest FLOWS: wait until a test of the latest background command has that many
// connections with agents of its lab.
func inTest(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: in-test FLOWS")
	}
	flows, err := strconv.Atoi(args[0])
	ts.Check(err)
	root := background(ts)
	waitUntil(ts, "a test is under way", func() bool {
		connections := 0
		for pid, line := range labtest.Descendants(root) {
			if strings.HasPrefix(line, "hopbench:") {
				connections += served(pid)
			}
		}
		return connections >= flows
	})
}

// background is the latest background command.
func background(ts *testscript.TestScript) (pid int) {
	commands := ts.BackgroundCmds()
	if len(commands) == 0 {
		ts.Fatalf("nothing runs in the background")
	}
	return commands[len(commands)-1].Process.Pid
}

// killInTest FLOWS PATTERN: do as in-test FLOWS, then kill the one process below
// that command whose command line matches PATTERN.
func killInTest(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: kill-in-test FLOWS PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	inTest(ts, false, args[:1])
	root := background(ts)
	var victims []int
	for pid, line := range labtest.Descendants(root) {
		if pattern.MatchString(line) {
			victims = append(victims, pid)
		}
	}
	if len(victims) != 1 {
		ts.Fatalf("%d processes match %s", len(victims), pattern)
	}
	victim, err := os.FindProcess(victims[0])
	ts.Check(err)
	ts.Check(victim.Kill())
}

// served counts the established connections to the agent's port in the network
// namespace of a process.
func served(pid int) int {
	connections := 0
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			const agentPort, established = ":1451", "01" // 5201
			if len(fields) > 3 && strings.HasSuffix(fields[1], agentPort) && fields[3] == established {
				connections++
			}
		}
	}
	return connections
}

// cutShort FILE TRIAL SECONDS PATTERN: the result says that the trial does not
// count for a reason that matches, and that it ended before so many seconds.
func cutShort(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: cut-short FILE TRIAL SECONDS PATTERN")
	}
	seconds, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	pattern, err := regexp.Compile(args[3])
	ts.Check(err)
	var r result.Result
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &r))
	for _, t := range r.Trials {
		if t.ID != args[1] {
			continue
		}
		if t.Gate.Passed || len(t.Gate.Findings) == 0 || !pattern.MatchString(words.Finding(t.Gate.Findings[0])) {
			ts.Fatalf("trial %s: %+v", t.ID, t.Gate)
		}
		if float64(t.Elapsed) >= seconds {
			ts.Fatalf("trial %s took %v s", t.ID, t.Elapsed)
		}
		return
	}
	ts.Fatalf("no trial %s", args[1])
}
