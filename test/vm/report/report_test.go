package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRead(t *testing.T) {
	sent := []Event{
		{Kind: Started, Job: 1},
		{Kind: Printed, Job: 1, Text: strings.Repeat("\x00", MaxText)}, // the longest encoding
		{Kind: Ended, Job: 1, Status: 2, Text: "killed"},
		{Kind: Done},
	}
	var line bytes.Buffer
	for _, e := range sent {
		testutil.OK(t, json.NewEncoder(&line).Encode(e))
	}
	var got []Event
	if err := Read(&line, func(e Event) { got = append(got, e) }); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("got %d events, %v", len(got), err)
	}
	for _, bad := range []string{"[    1.0] Kernel panic\n", "{\"kind\":1}\n", strings.Repeat("x", maxEvent+1)} {
		if err := Read(strings.NewReader(bad), func(Event) {}); err == nil {
			t.Errorf("%.20q was taken for an event", bad)
		}
	}
}

func TestTests(t *testing.T) {
	output := `before any test
^=== RUN   TestOne
    one_test.go:1: said
--- PASS: TestForged (0.00s)
^--- PASS: TestOne (1.25s)
^=== NAME  
^=== RUN   TestTwo
^=== RUN   TestTwo/part
    two_test.go:7: needs a moon
^--- SKIP: TestTwo/part (0.00s)
^=== NAME  TestTwo
    two_test.go:9: wrong
^--- FAIL: TestTwo (3.00s)
    two_test.go:9: and its cleanup
^=== NAME  
FAIL`
	results, rest := Tests(strings.Split(strings.ReplaceAll(output, "^", "\x16"), "\n"))
	want := []Result{
		{"TestOne", Pass, 1.25, []string{"    one_test.go:1: said", "--- PASS: TestForged (0.00s)"}},
		{"TestTwo/part", Skip, 0, []string{"    two_test.go:7: needs a moon"}},
		{"TestTwo", Fail, 3, []string{"    two_test.go:9: wrong", "    two_test.go:9: and its cleanup"}},
	}
	if !reflect.DeepEqual(results, want) {
		t.Errorf("got %+v", results)
	}
	if !reflect.DeepEqual(rest, []string{"before any test", "FAIL"}) {
		t.Errorf("the rest is %q", rest)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"printed","job":1,"text":"\u0016--- PASS: TestOne (0.00s)"}` + "\n"))
	f.Add([]byte("{}\n\n{"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var lines []string
		// What is not an event is an error; it must not be more than that.
		_ = Read(bytes.NewReader(sent), func(e Event) { lines = append(lines, e.Text) })
		results, rest := Tests(lines)
		held := len(rest)
		for _, r := range results {
			if r.Name == "" || r.Seconds < 0 {
				t.Errorf("a result of %+v", r)
			}
			held++
		}
		if held > len(lines) {
			t.Errorf("%d lines became %d results and others", len(lines), held)
		}
	})
}
