package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

func pictureText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	return written(t, figure.Picture, r)
}

// wellFormed reads an XML document to its end.
func wellFormed(document []byte) error {
	d := xml.NewDecoder(bytes.NewReader(document))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestPictureGolden(t *testing.T) {
	got := pictureText(t, reporttest.Run(t, 10))
	if err := wellFormed(got); err != nil {
		t.Errorf("the picture is not well-formed XML: %v", err)
	}
	reporttest.Golden(t, "picture.svg", got)
}

// A path that breaks trials is in the plot of costs, too: all of them, and it is beyond the
// axis on the worse side; some, and its interval has no end there.
func TestPictureOfBrokenTrials(t *testing.T) {
	for _, c := range []struct {
		test, text string
		broken     int
		mark       string
	}{
		{"flows-1", "unbounded", 10, `<path d="M191.5,`},
		{"latency", "unbounded", 10, `<path d="M595.5,`},
		{"flows-1", "0.298× [0, 0.299]", 1, `<line x1="196" `},
		{"latency", "3.76× [3.74, ∞]", 1, ` x2="600" `},
	} {
		r := reporttest.Run(t, 10)
		breakTrials(r, func(trial *measurement.Trial) bool {
			return trial.Path == "one-appliance" && trial.Test == c.test && trial.Block <= c.broken
		})
		reporttest.Analyse(r)
		got := strings.ReplaceAll(string(pictureText(t, r)), words.NBSP, " ")
		_, row, _ := strings.Cut(got, `">`+c.text+"</text>")
		row, _, _ = strings.Cut(row, `class="f2 name"`)
		if !strings.Contains(row, c.mark) {
			t.Errorf("%d broken of %s: %q and %q are not in the picture:\n%s", c.broken, c.test, c.text, c.mark, row)
		}
	}
}

// Where both paths broke trials of other blocks, an interval has no end on either side: the plot
// says so as the table does, and its bar goes from end to end. That is no estimate without one.
func TestPictureOfAnIntervalWithoutEnds(t *testing.T) {
	r := reporttest.Run(t, 10)
	breakTrials(r, func(trial *measurement.Trial) bool {
		return trial.Test == "latency" && (trial.Path == "one-appliance" && trial.Block <= 2 || trial.Path == "direct" && trial.Block > 8)
	})
	reporttest.Analyse(r)
	got := strings.ReplaceAll(string(pictureText(t, r)), words.NBSP, " ")
	_, row, found := strings.Cut(got, "× [0, ∞]</text>")
	row, _, _ = strings.Cut(row, `class="f2 name"`)
	if bar := regexp.MustCompile(`<line x1="196" y1="[0-9.]+" x2="600" y2="[0-9.]+" class="s1 bar"/>`); !found || !bar.MatchString(row) || strings.Contains(row, `class="s1 cap"`) {
		t.Errorf("the interval of one appliance is not from end to end: %s", row)
	}
	if cell := report.New(r).Table.Rows[1].Cells[0]; strings.ReplaceAll(cell.CostInterval, words.NBSP, " ") != "[−∞, +∞]" {
		t.Errorf("the table has %q", cell.CostInterval)
	}
}
