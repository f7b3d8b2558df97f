package measurement

import (
	"slices"
	"testing"
)

// Every kind has defaults, and is judged by metrics that it brings back.
func TestKindsAreWhole(t *testing.T) {
	for _, row := range kinds {
		if row.defaults == (Spec{}) || len(row.primary) == 0 {
			t.Errorf("%s: %+v", row.name, row)
		}
		for _, name := range row.primary {
			if m, known := MetricNamed(name); !known || !slices.Contains(m.Kinds, row.name) {
				t.Errorf("a %s test does not bring back %s", row.name, name)
			}
		}
	}
}
