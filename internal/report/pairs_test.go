package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// pairsFixture is fixture with n pairs in every trial of ten flows, pair k with
// a k-th part of all that they had together.
func pairsFixture(t testing.TB, blocks, n int) *result.Result {
	t.Helper()
	r := fixture(t, blocks)
	for i := range r.Trials {
		trial := &r.Trials[i]
		if trial.Test != "flows-10" {
			continue
		}
		for k := 1; k <= n; k++ {
			share := float64(2*k) / float64(n*(n+1))
			p := measurement.Pair{
				Source: fmt.Sprintf("vm1-%d", k), Destination: fmt.Sprintf("vm2-%d", k), Delay: measurement.Seconds(k-1) * 0.001,
				Metrics:    measurement.Metrics{"goodput_bits_per_second": share * trial.Metrics["goodput_bits_per_second"], "tcp_rtt_mean_seconds": 0.001 * float64(k)},
				Throughput: &measurement.Bins{Width: 0.05, Bytes: make([]float64, 26)},
			}
			for j := range p.Throughput.Bytes {
				p.Throughput.Bytes[j] = share * 1e6 * float64(1+j%2)
				p.RTT = append(p.RTT, measurement.PairRTT{At: measurement.Seconds(j)*0.05 + 0.025, RTT: measurement.Seconds(k) * 0.001})
			}
			trial.Pairs = append(trial.Pairs, p)
		}
	}
	return r
}

func TestJainIndex(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{0, 0}, 0}, {[]float64{3}, 1}, {[]float64{5, 5, 5, 5}, 1}, {[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1e300, 1e300}, 1},
		{[]float64{1, 2, 3}, 36.0 / 42},
	} {
		if got := jainIndex(test.values); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("index of %v is %v, want %v", test.values, got, test.want)
		}
	}
}

// The page, the tables and the files show several pairs, and a result without
// them has nothing of the kind.
func TestPairsAreShown(t *testing.T) {
	r := pairsFixture(t, 6, 3)
	page := htmlText(t, r)
	if err := checkPage(page); err != nil {
		t.Error(err)
	}
	var md bytes.Buffer
	if err := Markdown(&md, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<section id="pairs">`, "all pairs together, ", "TCP RTT of each pair, ", "3 pairs of hosts do every test"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if !strings.Contains(md.String(), "10 flows, pair by pair") || !strings.Contains(md.String(), "| 0.857 |") { // 36/42 of shares 1:2:3
		t.Errorf("the table of pairs is missing or wrong:\n%s", md.String())
	}
	if !HasPairs(r) || HasPairs(fixture(t, 1)) {
		t.Error("HasPairs is wrong")
	}
	if strings.Contains(string(htmlText(t, fixture(t, 1))), "All pairs at the same time") {
		t.Error("a result without pairs has a picture of them")
	}
}

func TestPairsCSV(t *testing.T) {
	r := pairsFixture(t, 1, 2)
	r.Trials = r.Trials[:0:0]
	for _, trial := range pairsFixture(t, 1, 2).Trials {
		if trial.Path == "direct" && trial.Test == "flows-10" {
			trial.Pairs = append(trial.Pairs, measurement.Pair{Source: "=evil()", Destination: "d", Error: "gone"})
			r.Trials = append(r.Trials, trial)
		}
	}
	var b bytes.Buffer
	if err := PairsCSV(&b, r); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+26+26+1 || strings.Join(rows[0], ",") != strings.Join(pairsHeader, ",") {
		t.Fatalf("%d rows, header %v", len(rows), rows[0])
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	second := rows[1+26+3] // of pair 2, its fourth bin
	pair := r.Trials[0].Pairs[1]
	if second[4] != "2" || math.Abs(number(second[7])-0.151) > 1e-9 || number(second[8]) != pair.Throughput.Bytes[3]*8/0.05 || number(second[9]) != 0.002 {
		t.Errorf("row %v", second)
	}
	if last := rows[len(rows)-1]; last[5] != "'=evil()" || last[7] != "" || last[8] != "" {
		t.Errorf("the pair that failed has %v", last)
	}
}

// Every column of pairs.csv is explained.
func TestPairsCSVIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../docs/data-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## pairs.csv\n")
	for _, column := range pairsHeader {
		if !explains(section, column) {
			t.Errorf("the column `%s` is not explained", column)
		}
	}
}

// Whatever stands in the series of pairs, every rendering comes out.
func TestAnyPairsRender(t *testing.T) {
	r := pairsFixture(t, 1, 3)
	r.Paths, r.Cells, r.Costs = r.Paths[:1], nil, nil
	rendersWhatever(t, r, 11, 15, 5)
}

func TestBrowserPairs(t *testing.T) {
	browser(t)
	for width, m := range measurePage(t, htmlText(t, pairsFixture(t, 6, 30)), []int{360, 700, 1100}) {
		if m.Scroll > m.Width || len(m.Wide) > 0 || m.Smallest < 8.5 {
			t.Errorf("the page is %d wide in a window of %d, its smallest letters %.1f high; beyond its edge are %q", m.Scroll, m.Width, m.Smallest, m.Wide)
		}
		if width != m.Width {
			t.Errorf("width %d is %d", width, m.Width)
		}
	}
}
