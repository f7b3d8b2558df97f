package measurement

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every kind has defaults, and is judged by metrics that it brings back.
func TestKindsAreWhole(t *testing.T) {
	for _, row := range kinds {
		if row.defaults == (Spec{}) || len(row.primary) == 0 {
			t.Errorf("%s: %+v", row.name, row)
		}
		for _, name := range row.primary {
			if m, known := MetricNamed(name); !known || !slices.Contains(m.Kinds, row.name) {
				t.Errorf("a %s test does not bring back %s", row.name, name)
			}
		}
	}
}

// docs/methodology.md names as compared, and as having a margin, only metrics that are.
func TestDocumentedMarginsAreOfComparedMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/methodology.md")
	if err != nil {
		t.Fatal(err)
	}
	_, others, _ := strings.Cut(string(page), "\n- The others (such as ")
	others, _, _ = strings.Cut(others, ")")
	_, table, _ := strings.Cut(string(page), "\n| metric | margin |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	named := strings.Split(strings.Join(strings.Fields(others), " "), ", ")
	for row := range strings.Lines(table) {
		metrics, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		named = append(named, strings.Split(metrics, ", ")...)
	}
	if len(named) < 10 {
		t.Fatalf("the page names %q", named)
	}
	for _, name := range named {
		known, compared := false, false
		for _, m := range Catalogue() {
			if m.Label == name {
				known, compared = true, compared || m.Compared
			}
		}
		if known && !compared {
			t.Errorf("%s is not compared", name)
		}
	}
}
