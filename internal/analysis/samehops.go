package analysis

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// sameHopsNotes names the paths to one address whose first traces saw the same hops,
// where the testbed does not declare what they must show: such as a source address by
// which no router routes. Silent hops say nothing, so each trace must have an answer at
// the same steps.
func sameHopsNotes(paths []result.PathInfo, trials []measurement.Trial) []result.Note {
	first := map[string]*measurement.Fingerprint{}
	for _, t := range trials {
		if f := t.Fingerprint; f != nil && f.Learned && f.Matches && len(f.Hops) > 0 && first[t.Path] == nil {
			first[t.Path] = f
		}
	}
	var out []result.Note
	for i, p := range paths {
		for _, before := range paths[:i] {
			a, b := first[before.Name], first[p.Name]
			if a != nil && b != nil && before.Dest == p.Dest && sameAnswers(a.Hops, b.Hops) {
				out = append(out, result.Note{Code: result.NoteSameHops, Path: p.Name, Baseline: before.Name})
				break
			}
		}
	}
	return out
}

func sameAnswers(a, b []measurement.TraceHop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Address != b[i].Address {
			return false
		}
	}
	return true
}
