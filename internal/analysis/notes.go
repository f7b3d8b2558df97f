package analysis

import (
	"slices"
	"strings"

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
		if missing := set.blocks - c.N; c.leads && missing > 0 {
			out = append(out, result.Note{Code: result.NoteLostBlocks, Path: c.Path, Baseline: c.Baseline, Against: c.Against, Test: c.Test, Metric: c.Metric,
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
		if c.Primary && c.tooFew() {
			n.Count++
			n.Needed, n.Of = max(n.Needed, c.fewestBlocks()), c.familySize
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
		if c.Drift != nil {
			tested++
		}
		if c.drift() != nil {
			out = append(out, result.Note{Code: result.NoteDrift, Path: c.Path, Baseline: c.Baseline, Against: c.Against, Test: c.Test, Metric: c.Metric, Level: driftAlpha, Drift: c.Drift})
		}
	}
	if len(out) > 0 {
		out = append(out, result.Note{Code: result.NoteDriftTested, Count: tested, Level: driftAlpha})
	}
	return out
}

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

// tunnelNotes names the firewalls below VXLAN. Its source port is a hash of the
// inner flow (RFC 7348, section 5), another one each way. To nf_conntrack they are
// two flows that nobody answers, whose packets stay new
// (nf_conntrack_in in net/netfilter/nf_conntrack_core.c: established takes a
// packet of the other direction), so a rule for established flows never matches.
// WireGuard has the same two ports both ways.
func tunnelNotes(paths []result.PathInfo, rules map[string]map[string]int) []result.Note {
	var out []result.Note
	for _, p := range paths {
		if !strings.HasPrefix(p.Tunnel, "vxlan") {
			continue
		}
		for _, h := range p.Hops {
			if n := rules[p.Name][h.Name]; n > 0 && !h.Bypassed {
				out = append(out, result.Note{Code: result.NoteTunnelMeetsRules, Path: p.Name, Name: h.Name, Count: n})
			}
		}
	}
	return out
}

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
			if a != nil && b != nil && before.Dest == p.Dest && a.TracedBack == b.TracedBack && sameAnswers(a.Hops, b.Hops) {
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
