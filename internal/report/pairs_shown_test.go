package report_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
)

// The page, the tables and the files show several pairs, and a result without
// them has nothing of the kind.
func TestPairsAreShown(t *testing.T) {
	r := reporttest.Pairs(t, 6, 3)
	page := htmlText(t, r)
	if err := checkPage(page); err != nil {
		t.Error(err)
	}
	md := string(written(t, markdown.Write, r))
	for _, want := range []string{`<section id="pairs">`, "all pairs together, ", "TCP RTT of each pair, ", "3 pairs of hosts run every test"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if !strings.Contains(md, "10 flows, pair by pair") || !strings.Contains(md, "| 0.857 |") { // 36/42 of shares 1:2:3
		t.Errorf("the table of pairs is missing or wrong:\n%s", md)
	}
	if !data.HasPairs(r) || data.HasPairs(reporttest.Run(t, 1)) {
		t.Error("HasPairs is wrong")
	}
	if strings.Contains(string(htmlText(t, reporttest.Run(t, 1))), "All pairs at the same time") {
		t.Error("a result without pairs has a picture of them")
	}
}

// Whatever stands in the series of pairs, every rendering comes out.
func TestAnyPairsRender(t *testing.T) {
	r := reporttest.Pairs(t, 1, 3)
	r.Paths, r.Cells, r.Costs = r.Paths[:1], nil, nil
	rendersWhatever(t, r, 11, 15, 5)
}

func TestBrowserPairs(t *testing.T) {
	browsertest.Program(t)
	for width, m := range measurePage(t, htmlText(t, reporttest.Pairs(t, 6, 30)), []int{360, 700, 1100}) {
		if m.Scroll > m.Width || len(m.Wide) > 0 || m.Smallest < 8.5 {
			t.Errorf("the page is %d wide in a window of %d, its smallest letters %.1f high; beyond its edge are %q", m.Scroll, m.Width, m.Smallest, m.Wide)
		}
		if width != m.Width {
			t.Errorf("width %d is %d", width, m.Width)
		}
	}
}
