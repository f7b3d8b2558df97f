package report

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Every kind has a row, and its metrics are ones that the kind brings back.
func TestEveryKindHasARow(t *testing.T) {
	for _, kind := range measurement.Kinds() {
		row, known := kinds[kind]
		if !known || row.headers == 0 {
			t.Errorf("%s: %+v", kind, row)
		}
		for _, name := range slices.Concat(row.details, row.bothWays) {
			if !slices.ContainsFunc(measurement.MetricsOf(kind), func(m measurement.Metric) bool { return m.Name == name }) {
				t.Errorf("a %s test does not bring back %s", kind, name)
			}
		}
	}
	if len(kinds) != len(measurement.Kinds()) {
		t.Errorf("%d rows for %d kinds", len(kinds), len(measurement.Kinds()))
	}
}
