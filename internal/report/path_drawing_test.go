package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

func TestReadable(t *testing.T) {
	for given, want := range map[string]string{"369us": "369" + words.NBSP + "µs", "12.5Gbit": "12.5" + words.NBSP + "Gbit/s", "on": "on"} {
		if got := readable(given); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A drawing shows what a hop is, not how its CPU time is measured.
func TestParametersOfADrawing(t *testing.T) {
	got := parameters(map[string]string{"rate": "1Gbit", "account_cpu": "true", "delay": "2us"})
	if want := []Pair{{"delay", "2" + words.NBSP + "µs"}, {"rate", "1" + words.NBSP + "Gbit/s"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Of more paths than there are colours, each has in its drawing the colour of its lines.
func TestColoursOfManyPaths(t *testing.T) {
	r := &result.Result{}
	for i := range 15 {
		r.Paths = append(r.Paths, result.PathInfo{Name: fmt.Sprint(i), Baseline: i == 0})
	}
	for i, d := range New(r).Drawings() {
		if d.Index != PathColour(i) || i > 0 && d.Index == 0 || d.Index >= PathColours {
			t.Errorf("path %d has colour %d, its lines %d", i, d.Index, PathColour(i))
		}
	}
}
