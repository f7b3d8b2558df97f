package report_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// TestTerminalFitsItsWidth holds that no line is wider than asked for, with
// names of wide characters too.
func TestTerminalFitsItsWidth(t *testing.T) {
	r := reporttest.Run(t, 10)
	r.Paths[1].Title = "東京のルーターを一つ通る経路"
	for width := 60; width <= 140; width += 10 {
		for _, verbose := range []bool{false, true} {
			for l := range strings.Lines(string(terminalText(t, r, terminal.Options{Width: width, Verbose: verbose}))) {
				if l = strings.TrimSuffix(l, "\n"); typeset.Columns(l) > width {
					t.Errorf("width %d: %d columns: %s", width, typeset.Columns(l), l)
				}
			}
		}
	}
	if s := string(terminalText(t, r, terminal.Options{})); strings.Contains(s, "\x1b") {
		t.Error("colour without being asked for")
	}
}

func terminalText(t *testing.T, r *result.Result, o terminal.Options) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, terminal.Write(&b, r, o))
	return b.Bytes()
}

func TestTerminalGolden(t *testing.T) {
	r := reporttest.Run(t, 10)
	for name, o := range map[string]terminal.Options{
		"terminal-100.txt":      {Width: 100, Verbose: true},
		"terminal-80.txt":       {Width: 80, Verbose: true},
		"terminal-colour.txt":   {Width: 100, Verbose: true, Colour: true},
		"terminal-brief.txt":    {Width: 100},
		"terminal-brief-60.txt": {Width: 60},
	} {
		reporttest.Golden(t, name, terminalText(t, r, o))
	}
	reporttest.Golden(t, "terminal-3-blocks.txt", terminalText(t, reporttest.Run(t, 3), terminal.Options{Width: 100, Verbose: true}))
}

// What a run prints fits one screen. testdata/routing-appliance.json.gz is what
// hopbench run routing-appliance --quick measured on a busy machine of two CPUs, which
// left all to say that there is; the flows and counters of its trials are cut out.
func TestTerminalFitsOneScreen(t *testing.T) {
	packed, err := os.Open("testdata/routing-appliance.json.gz")
	testutil.OK(t, err)
	defer func() { testutil.OK(t, packed.Close()) }()
	text, err := gzip.NewReader(packed)
	testutil.OK(t, err)
	var r result.Result
	testutil.OK(t, json.NewDecoder(text).Decode(&r))
	short := terminalText(t, &r, terminal.Options{Width: 100})
	reporttest.Golden(t, "routing-appliance.txt", short)
	if n := bytes.Count(short, []byte("\n")); n > 60 {
		t.Errorf("%d lines of 100 columns:\n%s", n, short)
	}
	// More kinds of remark than there is room for are counted.
	said := r.Trials[0].Facts
	for i := range 20 {
		r.Trials[0].Facts = append(slices.Clip(r.Trials[0].Facts), strings.Repeat("a remark of some length ", 5)+string(rune('a'+i)))
	}
	crowded := terminalText(t, &r, terminal.Options{Width: 100})
	if n := bytes.Count(crowded, []byte("\n")); n > 60 || !bytes.Contains(crowded, []byte(" remarks of another kind")) {
		t.Errorf("%d lines of 100 columns:\n%s", n, crowded)
	}
	r.Trials[0].Facts = said
	// Nor is it longer where each test is limited by something that takes long to explain: then
	// it says less of each.
	attributions := r.Attributions
	r.Attributions = nil
	for i, a := range attributions {
		for j, test := range []string{"flows-1", "latency"} {
			a.Test, a.Shares = test, map[result.Cause]float64{"receive_window": 0.99 - float64(2*i+j)/100}
			r.Attributions = append(r.Attributions, a)
		}
	}
	explained := terminalText(t, &r, terminal.Options{Width: 100})
	if n := bytes.Count(explained, []byte("\n")); n > 60 || bytes.Count(explained, []byte("by the receive window")) != len(r.Attributions) {
		t.Errorf("%d lines of 100 columns:\n%s", n, explained)
	}
	r.Attributions = attributions
	// Whatever it counts, all is there when asked for.
	all := string(terminalText(t, &r, terminal.Options{Width: 1000, Verbose: true}))
	for _, fact := range r.Trials[0].Facts {
		if !strings.Contains(all, fact) {
			t.Errorf("not told: %s", fact)
		}
	}
	for _, p := range r.Published {
		if !strings.Contains(all, p.ID) {
			t.Errorf("%s is not told", p.ID)
		}
	}
}

func TestMarkdownGolden(t *testing.T) {
	reporttest.Golden(t, "report.md", written(t, markdown.Write, reporttest.Run(t, 10)))
}

func TestCSVGolden(t *testing.T) {
	reporttest.Golden(t, "trials.csv", written(t, data.CSV, reporttest.Run(t, 1)))
}
