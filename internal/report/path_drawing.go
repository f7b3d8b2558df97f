package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// Drawing is a path drawn hop by hop.
type Drawing struct {
	Index    int // colour
	Label    string
	Baseline bool
	Variant  string // on whose nodes it lies: "on the nodes of …"
	Tunnel   string // over all hops: "inside vxlan, …"
	Elements []DrawingElement
	Proof    string // what a trial saw on the way
	Missing  string // why there is no proof
}

// DrawingElement is a box (a node) or a link between two boxes.
type DrawingElement struct {
	Link       bool
	Kind, Name string
	Parameters []Pair
	Off        bool
}

// Drawings draws every declared path: endpoints and hops are boxes, link emulators are
// the links between them, and boxes without a link emulator between them are joined
// by a plain link.
func (m *Model) Drawings() []Drawing {
	var out []Drawing
	for i, p := range m.Paths {
		if p.Info == nil {
			continue
		}
		r := Drawing{Index: PathColour(i), Label: p.Label, Baseline: p.Baseline}
		if p.Info.VariantOf != "" {
			r.Variant = "on the nodes and addresses of " + m.PathLabel(p.Info.VariantOf)
		}
		if p.Info.Tunnel != "" {
			r.Tunnel = "inside " + typeset.Line(p.Info.Tunnel)
		}
		add := func(e DrawingElement) {
			if n := len(r.Elements); n > 0 && r.Elements[n-1].Link == e.Link {
				r.Elements = append(r.Elements, plainElement(!e.Link))
			}
			r.Elements = append(r.Elements, e)
		}
		add(DrawingElement{Kind: "source", Name: typeset.Line(p.Info.Source)})
		for _, h := range p.Info.Hops {
			add(DrawingElement{Link: h.Type == "link" || h.Type == "cable", Kind: typeset.Line(h.Type), Name: typeset.Line(h.Name), Parameters: parameters(h.Parameters), Off: h.Bypassed})
		}
		add(DrawingElement{Kind: "destination", Name: typeset.Line(p.Info.Dest)})
		r.Proof, r.Missing = m.proof(p)
		out = append(out, r)
	}
	return out
}

// plainElement is a link without properties, or the joint of two link emulators.
func plainElement(link bool) DrawingElement {
	if link {
		return DrawingElement{Link: true}
	}
	return DrawingElement{Kind: "joint"}
}

// parameters lists a hop's parameters by name, but not what says how it is measured.
func parameters(p map[string]string) []Pair {
	var out []Pair
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k == "measure_kernel_cpu" || k == "account_cpu" {
			continue
		}
		out = append(out, Pair{typeset.Line(k), readable(typeset.Line(p[k]))})
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
	return s[:i] + words.NBSP + strings.TrimSpace(unit)
}

// proof is the fingerprint of the first trial of a path that counts, or of
// any that has one.
func (m *Model) proof(p Path) (proof, missing string) {
	var chosen *measurement.Trial
	matched, seen := 0, 0
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
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
	return fmt.Sprintf("Trial %s saw %s. %d of %s with a fingerprint matched the plan.", typeset.Line(chosen.ID), typeset.Line(words.Fingerprint(chosen.Fingerprint)), matched, quantity.Count(seen, "trial")), ""
}
