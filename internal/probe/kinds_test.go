package probe

import (
	"strings"
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

// What a test needs of open files is told with what helps: one without flows takes no fewer.
func TestEnoughDescriptors(t *testing.T) {
	for _, c := range []struct {
		spec  measurement.Spec
		limit int
		want  string
	}{
		{measurement.Spec{Kind: measurement.RR}, 64, ""},
		{measurement.Spec{Kind: measurement.RR}, 0, ""},
		{measurement.Spec{Kind: measurement.RR}, 16, "a test needs about 64 open files, and this process may have 16: raise the limit (ulimit -n)"},
		{measurement.Spec{Kind: measurement.TCP, Flows: 100}, 100, "or take fewer flows"},
		{measurement.Spec{Kind: measurement.TCP, Flows: 100}, 65536, ""},
	} {
		err := enoughDescriptors(kinds[c.spec.Kind], c.spec, c.limit)
		if (err != nil) != (c.want != "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s with %d: %v", c.spec.Kind, c.limit, err)
		}
	}
}
