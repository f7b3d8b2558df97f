package analysis

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// maxFindings bounds how many excluded trials a note has with their reasons.
const maxFindings = 5

// exclusionNotes counts the trials that gates excluded, or that their paths
// broke, by gate.
func exclusionNotes(code result.NoteCode, excluded []measurement.Trial, all int) []result.Note {
	if len(excluded) == 0 {
		return nil
	}
	n := result.Note{Code: code, Count: len(excluded), Of: all, ByGate: map[string]int{}}
	for _, t := range excluded {
		f, gate := result.Exclusion{Trial: t.ID}, ""
		if i := slices.IndexFunc(t.Gate.Findings, func(f measurement.Finding) bool { return f.Fatal }); i >= 0 {
			f.Finding, gate = &t.Gate.Findings[i], t.Gate.Findings[i].Name
		}
		n.ByGate[gate]++
		if len(n.Findings) < maxFindings {
			n.Findings = append(n.Findings, f)
		}
	}
	return []result.Note{n}
}

// pairNotes names the costs from which blocks dropped out for want of a partner.
func pairNotes(set *dataset, all []*costEstimate) []result.Note {
	var out []result.Note
	for _, c := range all {
		if missing := set.blocks - c.n; c.metric.Primary && missing > 0 {
			out = append(out, result.Note{Code: result.NoteLostBlocks, Path: c.Path, Baseline: c.Baseline, Test: c.Test, Metric: c.Metric,
				Count: missing, Of: set.blocks})
		}
	}
	return out
}

// powerNotes warns when no effect whatever could be claimed: the p of so few
// repetitions cannot be small enough.
func powerNotes(all []*costEstimate, code result.NoteCode) []result.Note {
	n := result.Note{Code: code}
	for _, c := range all {
		if fewest := c.fewestBlocks(); c.Primary && c.n < fewest {
			n.Count++
			n.Needed, n.Of = max(n.Needed, fewest), c.familySize
		}
	}
	if n.Count == 0 {
		return nil
	}
	return []result.Note{n}
}

// driftNotes names the comparisons whose effect changed during the run.
func driftNotes(all []*costEstimate) []result.Note {
	var out []result.Note
	tested := 0
	for _, c := range all {
		d := c.Drift
		if d == nil {
			continue
		}
		tested++
		if (d.P != nil && *d.P < driftAlpha) || d.HalvesP < driftAlpha {
			out = append(out, result.Note{Code: result.NoteDrift, Path: c.Path, Test: c.Test, Metric: c.Metric, Level: driftAlpha, Drift: d})
		}
	}
	if len(out) > 0 {
		out = append(out, result.Note{Code: result.NoteDriftTested, Count: tested, Level: driftAlpha})
	}
	return out
}
