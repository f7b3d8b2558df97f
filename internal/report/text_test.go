package report_test

import (
	"bytes"
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
		for l := range strings.Lines(string(terminalText(t, r, terminal.Options{Width: width}))) {
			if l = strings.TrimSuffix(l, "\n"); typeset.Columns(l) > width {
				t.Errorf("width %d: %d columns: %s", width, typeset.Columns(l), l)
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
	reporttest.Golden(t, "terminal-100.txt", terminalText(t, r, terminal.Options{Width: 100}))
	reporttest.Golden(t, "terminal-80.txt", terminalText(t, r, terminal.Options{Width: 80}))
	reporttest.Golden(t, "terminal-colour.txt", terminalText(t, r, terminal.Options{Width: 100, Colour: true}))
	reporttest.Golden(t, "terminal-3-blocks.txt", terminalText(t, reporttest.Run(t, 3), terminal.Options{Width: 100}))
}

func TestMarkdownGolden(t *testing.T) {
	var b bytes.Buffer
	testutil.OK(t, markdown.Write(&b, reporttest.Run(t, 10)))
	reporttest.Golden(t, "report.md", b.Bytes())
}

func TestCSVGolden(t *testing.T) {
	var b bytes.Buffer
	testutil.OK(t, data.CSV(&b, reporttest.Run(t, 1)))
	reporttest.Golden(t, "trials.csv", b.Bytes())
}
