package planted

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
)

// Each experiment loads, and has the cell that is judged and the hop that is to be named.
func TestPlantedLoad(t *testing.T) {
	names := map[string]bool{}
	for _, p := range All() {
		e, err := experiment.Load(p.Name, []byte(p.ExperimentYAML))
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		path := slices.IndexFunc(e.Paths, func(path experiment.Path) bool { return path.Name == p.Path })
		test := slices.ContainsFunc(e.Tests, func(test experiment.Test) bool { return test.Name == p.Test })
		if names[p.Name] || path < 0 || !test || len(p.Want) == 0 {
			t.Errorf("%s has no cell %s on %s, or no cause, or the name of another", p.Name, p.Test, p.Path)
			continue
		}
		names[p.Name] = true
		if p.Hop != "" && !slices.ContainsFunc(e.Paths[path].Hops, func(h experiment.Hop) bool { return h.Name == p.Hop }) {
			t.Errorf("%s: no hop %s", p.Name, p.Hop)
		}
	}
}
