package analysis

import (
	"reflect"
	"slices"
	"strings"
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

func TestTunnelNotes(t *testing.T) {
	firewall := func(bypassed bool) []result.HopInfo {
		return []result.HopInfo{{Type: "link"}, {Type: "firewall", Name: "fw", Bypassed: bypassed}}
	}
	r := &result.Result{Paths: []result.PathInfo{
		{Name: "native", Baseline: true, Hops: firewall(false)},
		{Name: "inside", Tunnel: "vxlan id 7, UDP port 4789, MTU 1450", Hops: firewall(false)},
		{Name: "past", Tunnel: "vxlan id 8, UDP port 4789, MTU 1450", Hops: firewall(true)},
		{Name: "without", Tunnel: "vxlan id 9, UDP port 4789, MTU 1450", Hops: firewall(false)},
		{Name: "secret", Tunnel: "wireguard, UDP port 51820, MTU 1420", Hops: firewall(false)},
	}}
	o := DefaultOptions()
	o.Rules = map[string]map[string]int{"native": {"fw": 5000}, "inside": {"fw": 5000}, "past": {"fw": 5000}, "without": {"fw": 0}, "secret": {"fw": 5000}}
	Fill(r, o)
	var got []result.Note
	for _, n := range r.Notes {
		if n.Code == result.NoteTunnelMeetsRules {
			got = append(got, n)
		}
	}
	if want := []result.Note{{Code: result.NoteTunnelMeetsRules, Path: "inside", Name: "fw", Count: 5000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the notes are %+v, want %+v", got, want)
	}
}

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

// A run whose paths cannot be compared says why, in the comparison of runs, too.
func TestComparedRunsSayWhatTheyLack(t *testing.T) {
	run := func(paths []result.PathInfo) *result.Result {
		return &result.Result{Experiment: result.ExperimentInfo{Scale: 1}, Paths: paths, Tests: []result.TestInfo{flows1}, Trials: trialsOf("direct", "flows-1", goodput, 1e9)}
	}
	two := pathsNamed("direct", "hop")
	two[1].Baseline = true
	_, notes := CompareRuns(Side{"A", []*result.Result{run(pathsNamed("direct", "hop"))}}, []Side{{"B", []*result.Result{run(two)}}}, DefaultOptions())
	if !slices.ContainsFunc(notes, func(n result.Note) bool { return n.Code == result.NoteTwoBaselines && n.Run == "B" }) {
		t.Errorf("notes %+v", notes)
	}
	// So does one that lacks blocks, as it does above its own verdicts.
	part := func() *result.Result {
		r := run(pathsNamed("direct", "hop"))
		r.Notes = []result.Note{{Code: result.NoteInterim, Count: 1, Of: 10}, {Code: result.NoteFullCPUs, Count: 1, Of: 1}}
		return r
	}
	_, notes = CompareRuns(Side{"A–C", []*result.Result{part(), part(), run(pathsNamed("direct", "hop"))}}, []Side{{"D", []*result.Result{part()}}}, DefaultOptions())
	text := notesText(notes)
	for _, want := range []string{"A–C: Interim: the run has 2 of 20 blocks so far", "D: Interim: the run has 1 of 10 blocks so far"} {
		if !strings.Contains(text, want) || strings.Contains(text, "CPUs") {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
}
