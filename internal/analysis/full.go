package analysis

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// cpuNotes says in how many trials the CPUs of an end were full, and how much of
// their time a hypervisor took at most.
func cpuNotes(trials []measurement.Trial) []result.Note {
	n := result.Note{Code: result.NoteFullCPUs, Of: len(trials)}
	for _, t := range trials {
		if slices.ContainsFunc(t.Gate.Findings, func(f measurement.Finding) bool { return f.Code == measurement.FoundBusyCPUs }) {
			n.Count++
		}
		for _, f := range t.Gate.Findings {
			if f.Code == measurement.FoundStolenCPU {
				n.Stolen = max(n.Stolen, f.CPUStolen)
			}
		}
	}
	if n.Count == 0 && n.Stolen == 0 {
		return nil
	}
	return []result.Note{n}
}
