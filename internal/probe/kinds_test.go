package probe

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Every kind of test has a row, and a row says enough to be run and, where a server
// takes part, to be served.
func TestEveryKindHasARow(t *testing.T) {
	for _, name := range measurement.Kinds() {
		if _, ok := kinds[name]; !ok {
			t.Errorf("no row for the kind %q", name)
		}
	}
	for name, k := range kinds {
		if k.Run == nil {
			t.Errorf("%s cannot be run", name)
		}
		if k.NewServer != nil && (k.Planned == nil || k.Demand == nil) {
			t.Errorf("a server cannot tell what a test of kind %s takes", name)
		}
	}
}
