package data

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

// HasPairs says whether some test of r was done by several pairs of hosts at
// the same time.
func HasPairs(r *result.Result) bool {
	return slices.ContainsFunc(r.Trials, func(t measurement.Trial) bool { return len(t.Pairs) > 0 })
}

// pairsHeader names the columns of pairs.csv; docs/data-format.md explains them.
var pairsHeader = []string{"trial", "path", "test", "passed", "pair", "source", "destination", "second", "throughput_bits_per_second", "rtt_seconds"}

// PairsCSV writes what every pair of every trial counted over time: one row per
// trial, pair and bin of the pair's count. A pair without a count has one row,
// so that holes are seen.
func PairsCSV(w io.Writer, r *result.Result) error {
	r = report.OnlyFinite(r)
	c := csv.NewWriter(w)
	_ = c.Write(pairsHeader) // c.Error has why it failed
	for i := range r.Trials {
		t := &r.Trials[i]
		for k, p := range t.Pairs {
			head := []string{typeset.Cell(t.ID), typeset.Cell(t.Path), typeset.Cell(t.Test), strconv.FormatBool(t.Gate.Passed), strconv.Itoa(k + 1), typeset.Cell(p.Source), typeset.Cell(p.Destination)}
			for _, row := range pairRows(head, p) {
				_ = c.Write(row)
			}
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write pairs as CSV: %w", err)
	}
	return nil
}

// pairRows are the rows of one pair; a bin's round-trip time is the mean of the
// samples in it.
func pairRows(head []string, p measurement.Pair) [][]string {
	float := func(v float64) string {
		if !quantity.Finite(v) { // what is computed here may overflow, and a bin may have no round-trip time
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if p.Throughput == nil || p.Throughput.Width <= 0 || len(p.Throughput.Bytes) == 0 {
		return [][]string{slices.Concat(head, []string{"", "", ""})}
	}
	width := float64(p.Throughput.Width)
	rtts := report.MeanRTTs(*p.Throughput, p.RTT)
	var out [][]string
	for i, n := range p.Throughput.Bytes {
		out = append(out, slices.Concat(head, []string{float(float64(p.Delay) + float64(i)*width), float(n * 8 / width), float(rtts[i])}))
	}
	return out
}
