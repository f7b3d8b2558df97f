package report

import (
	"slices"
	"testing"

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
