package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// route is a path drawn hop by hop.
type route struct {
	Index    int // colour
	Label    string
	Baseline bool
	SameAs   string // on whose nodes it lies: "on the nodes of …"
	Tunnel   string // over all hops: "inside vxlan, …"
	Elements []routeElement
	Proof    string // what a trial saw on the way
	Missing  string // why there is no proof
}

// routeElement is a box (a node) or a link between two boxes.
type routeElement struct {
	Link       bool
	Kind, Name string
	Parameters []pair
	Off        bool
}

// routes draws every declared path: endpoints and hops are boxes, cables are
// the links between them, and boxes without a cable between them are joined
// by a plain link.
func (m *model) routes() []route {
	var out []route
	for i, p := range m.Paths {
		if p.Info == nil {
			continue
		}
		r := route{Index: min(i, pathColours-1), Label: p.Label, Baseline: p.Baseline}
		if p.Info.SameAs != "" {
			r.SameAs = "on the nodes and addresses of " + m.pathLabel(p.Info.SameAs)
		}
		if p.Info.Tunnel != "" {
			r.Tunnel = "inside " + line(p.Info.Tunnel)
		}
		add := func(e routeElement) {
			if n := len(r.Elements); n > 0 && r.Elements[n-1].Link == e.Link {
				r.Elements = append(r.Elements, plainElement(!e.Link))
			}
			r.Elements = append(r.Elements, e)
		}
		add(routeElement{Kind: "source", Name: line(p.Info.Source)})
		for _, h := range p.Info.Hops {
			add(routeElement{Link: h.Type == "link" || h.Type == "cable", Kind: line(h.Type), Name: line(h.Name), Parameters: parameters(h.Parameters), Off: h.Off})
		}
		add(routeElement{Kind: "destination", Name: line(p.Info.Dest)})
		r.Proof, r.Missing = m.proof(p)
		out = append(out, r)
	}
	return out
}

// plainElement is a link without properties, or the joint of two cables.
func plainElement(link bool) routeElement {
	if link {
		return routeElement{Link: true}
	}
	return routeElement{Kind: "joint"}
}

// parameters lists a hop's parameters by name, but not what says how it is measured.
func parameters(p map[string]string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k == "measure_kernel_cpu" || k == "account_cpu" {
			continue
		}
		out = append(out, pair{line(k), readable(line(p[k]))})
	}
	return out
}

// readable writes "369us" as "369 µs": a number, a space, its unit.
func readable(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i <= 0 {
		return s
	}
	unit := s[i:]
	switch unit {
	case "us":
		unit = "µs"
	case "kbit", "Mbit", "Gbit", "bit":
		unit += "/s"
	}
	return s[:i] + nbsp + strings.TrimSpace(unit)
}

// proof is the fingerprint of the first trial of a path that counts, or of
// any that has one.
func (m *model) proof(p path) (proof, missing string) {
	var chosen *measurement.Trial
	matched, seen := 0, 0
	for i := range m.r.Trials {
		t := &m.r.Trials[i]
		if t.Path != p.Name || t.Fingerprint == nil {
			continue
		}
		seen++
		if t.Fingerprint.Matches {
			matched++
		}
		if chosen == nil || (!chosen.Gate.Passed && t.Gate.Passed) {
			chosen = t
		}
	}
	if chosen == nil {
		return "", "No trial recorded the path that it took."
	}
	return fmt.Sprintf("Trial %s saw %s. %d of %s with a fingerprint matched the plan.", line(chosen.ID), track(chosen.Fingerprint), matched, quantity.Count(seen, "trial")), ""
}

// traced is what a trace saw, hop by hop; * is a silent one.
func traced(hops []measurement.TraceHop) string {
	addresses := make([]string, len(hops))
	for i, h := range hops {
		addresses[i] = cmp.Or(line(h.Address), "*")
	}
	return strings.Join(addresses, " → ")
}

// track is a fingerprint in a line.
func track(f *measurement.Fingerprint) string {
	var parts []string
	if len(f.Hops) > 0 {
		parts = append(parts, traced(f.Hops))
	}
	if len(f.OuterHops) > 0 {
		if len(parts) > 0 {
			parts[0] += " inside the tunnel"
		}
		parts = append(parts, traced(f.OuterHops)+" below the tunnel")
	}
	if f.ReceivedTTL > 0 {
		parts = append(parts, fmt.Sprintf("TTL %d on arrival", f.ReceivedTTL))
	}
	if f.PathMTU > 0 {
		parts = append(parts, fmt.Sprintf("path MTU %d B", f.PathMTU))
	}
	if f.MSS > 0 {
		parts = append(parts, fmt.Sprintf("MSS %d B", f.MSS))
	}
	if f.Switched {
		parts = append(parts, "switched in place, "+inBestUnit(float64(f.Settle), measurement.SecondsUnit)+" to settle")
	}
	if why := line(f.Why); !f.Matches && why != "" {
		parts = append(parts, "not the planned path: "+why)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
