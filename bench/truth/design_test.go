package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/bench/truth/planted"
	"github.com/hopbench/hopbench/internal/experiment"
)

// Every experiment of every part is one that hopbench reads.
func TestDesigns(t *testing.T) {
	all := []design{aaDesign(), aaDesign().reversed(), aaDesign().pair("p1", "p2")}
	for _, h := range allHarms() {
		all = append(all, h.design)
		for _, one := range h.harm {
			all = append(all, h.design.pair(one.baseline, one.path))
		}
	}
	for _, f := range slices.Concat(allFaults(), clockFaults()) {
		f.design.blocks = 1
		all = append(all, f.design)
	}
	for _, i := range allInstruments() {
		i.design.blocks = 1
		all = append(all, i.design)
	}
	rates, _ := plantedRates()
	delays, _ := plantedDelays()
	for _, d := range append(all, rates, delays) {
		if _, err := experiment.Load(d.name, []byte(d.text())); err != nil {
			t.Errorf("%v\n%s", err, d.text())
		}
	}
	for _, p := range planted.All() {
		if !strings.Contains(p.ExperimentYAML, "\nblocks: 1\n") {
			t.Errorf("the number of blocks of %s cannot be set", p.Name)
		}
	}
}

// Faults are of paths and tests of their designs.
func TestFaultsHavePlaces(t *testing.T) {
	for _, f := range slices.Concat(allFaults(), clockFaults()) {
		text := f.design.text()
		for _, one := range f.faults {
			if !strings.Contains(text, "{name: "+one.path+",") || !strings.Contains(text, "{name: "+one.test+",") {
				t.Errorf("%s has no path %s or no test %s", f.design.name, one.path, one.test)
			}
		}
	}
}

func TestUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accuracy.md")
	const text = "# Before\n\n<!-- aa: written by make bench-truth -->\nold\n<!-- end of aa -->\n\nafter\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := update(file, "aa", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); string(got) != strings.Replace(text, "old", "new", 1) {
		t.Errorf("the file has become\n%s", got)
	}
	if err := update(file, "never", "new\n"); err == nil {
		t.Error("a part without a place was written somewhere")
	}
}

// The document has a place for each part.
func TestDocumentHasPlaces(t *testing.T) {
	text, err := os.ReadFile("../../docs/accuracy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts() {
		if !strings.Contains(string(text), "<!-- "+p.Name+": written by make bench-truth -->\n") {
			t.Errorf("docs/accuracy.md has no place for part %s", p.Name)
		}
	}
}
