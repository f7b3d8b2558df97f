package analysis

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Two paths to one address that a trace cannot tell apart are named; what a testbed
// declares, other addresses and what did not count prove nothing.
func TestPathsWithTheSameHopsAreNamed(t *testing.T) {
	paths := []result.PathInfo{{Name: "any", Dest: "10.0.0.7:5201"}, {Name: "bound", Dest: "10.0.0.7:5201"}, {Name: "public", Dest: "203.0.113.9:5201"}}
	seen := func(path string, learned, matches bool, addresses ...string) measurement.Trial {
		f := &measurement.Fingerprint{Learned: learned, Matches: matches}
		for i, a := range addresses {
			f.Hops = append(f.Hops, measurement.TraceHop{TTL: i + 1, Address: a})
		}
		return measurement.Trial{Path: path, Fingerprint: f}
	}
	for name, c := range map[string]struct {
		trials []measurement.Trial
		want   int
	}{
		"the same":                  {[]measurement.Trial{seen("any", true, true, "10.0.5.1", "", "10.0.0.7"), seen("bound", true, true, "10.0.5.1", "", "10.0.0.7")}, 1},
		"another router":            {[]measurement.Trial{seen("any", true, true, "10.0.5.1", "10.0.0.7"), seen("bound", true, true, "10.0.6.1", "10.0.0.7")}, 0},
		"one more":                  {[]measurement.Trial{seen("any", true, true, "10.0.0.7"), seen("bound", true, true, "10.0.6.1", "10.0.0.7")}, 0},
		"another address":           {[]measurement.Trial{seen("any", true, true, "10.0.0.7"), seen("public", true, true, "10.0.0.7")}, 0},
		"declared":                  {[]measurement.Trial{seen("any", false, true, "10.0.0.7"), seen("bound", false, true, "10.0.0.7")}, 0},
		"another at first":          {[]measurement.Trial{seen("any", true, true, "10.0.0.7"), seen("bound", true, false, "10.0.0.7"), seen("bound", true, true, "10.0.6.1", "10.0.0.7")}, 0},
		"nobody traced":             {[]measurement.Trial{seen("any", true, true), seen("bound", true, true), {Path: "public"}}, 0},
		"another later is no proof": {[]measurement.Trial{seen("any", true, true, "10.0.0.7"), seen("bound", true, true, "10.0.0.7"), seen("bound", true, true, "10.0.6.1", "10.0.0.7")}, 1},
	} {
		if notes := sameHopsNotes(paths, c.trials); len(notes) != c.want || c.want == 1 && (notes[0].Path != "bound" || notes[0].Baseline != "any") {
			t.Errorf("%s: %+v, want %d", name, notes, c.want)
		}
	}
}
