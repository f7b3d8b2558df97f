package report

import (
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// What is known within bounds of its error alone is written with them, however wide.
func TestDetailsHaveBounds(t *testing.T) {
	cell := func(path, metric string, v float64) result.Cell {
		return result.Cell{Path: path, Test: "t", Metric: metric, N: 3, Median: v}
	}
	m := &Model{
		Run: &result.Result{Cells: []result.Cell{
			cell("lab", "one_way_delay_p50_seconds", 0.00252), cell("lab", "one_way_delay_bound_seconds", 0.00001),
			cell("far", "one_way_delay_p50_seconds", 0.003), cell("far", "one_way_delay_bound_seconds", 0.006),
			cell("far", "jitter_seconds", 0.0001),
		}},
		Paths: []Path{{Name: "lab"}, {Name: "far"}, {Name: "none"}},
		Tests: []Test{{Name: "t", Kind: measurement.UDP, Spec: measurement.Spec{Kind: measurement.UDP}}},
	}
	got := m.details()
	want := [][]string{{"—", "2.52\u00a0ms ± 10.0\u00a0µs"}, {"100\u00a0µs", "3.00\u00a0ms ± 6.00\u00a0ms"}, {"—", "—"}}
	if len(got) != 1 || len(got[0].Rows) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, row := range got[0].Rows {
		if !reflect.DeepEqual(row.Values, want[i]) {
			t.Errorf("path %d: %q, want %q", i, row.Values, want[i])
		}
	}
}
