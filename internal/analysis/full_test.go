package analysis

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Full CPUs of trials are one note of the run, whether the trials count or not.
func TestFullCPUsAreOneNote(t *testing.T) {
	trials := make([]measurement.Trial, 5)
	if notes := cpuNotes(trials); notes != nil {
		t.Errorf("of idle CPUs: %+v", notes)
	}
	full := measurement.Finding{Name: "cpu", Code: measurement.FoundBusyCPUs, CPUBusy: 1}
	trials[1].Gate = measurement.Gate{Passed: true, Findings: []measurement.Finding{full, full}} // both ends
	trials[2].Gate = measurement.Gate{Findings: []measurement.Finding{full}}
	trials[3].Gate = measurement.Gate{Passed: true, Findings: []measurement.Finding{
		{Name: "cpu", Code: measurement.FoundStolenCPU, CPUStolen: 0.1}, {Name: "cpu", Code: measurement.FoundStolenCPU, CPUStolen: 0.2}}}
	notes := cpuNotes(trials)
	if len(notes) != 1 || notes[0].Code != result.NoteFullCPUs || notes[0].Count != 2 || notes[0].Of != 5 || notes[0].Stolen != 0.2 {
		t.Errorf("%+v", notes)
	}
}
