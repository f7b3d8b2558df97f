package data

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPairsCSV(t *testing.T) {
	r := reporttest.Pairs(t, 1, 2)
	r.Trials = r.Trials[:0:0]
	for _, trial := range reporttest.Pairs(t, 1, 2).Trials {
		if trial.Path == "direct" && trial.Test == "flows-10" {
			trial.Pairs = append(trial.Pairs, measurement.Pair{Source: "=evil()", Destination: "d", Error: "gone"})
			r.Trials = append(r.Trials, trial)
		}
	}
	var b bytes.Buffer
	testutil.OK(t, PairsCSV(&b, r))
	rows, err := csv.NewReader(&b).ReadAll()
	testutil.OK(t, err)
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
	testutil.OK(t, err)
	_, section, _ := strings.Cut(string(b), "\n## pairs.csv\n")
	for _, column := range pairsHeader {
		if !explains(section, column) {
			t.Errorf("the column `%s` is not explained", column)
		}
	}
}
