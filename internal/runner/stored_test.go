package runner

import (
	"os"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A run whose experiment has keys with earlier names is reported, and not resumed.
func TestRunWithOldKeys(t *testing.T) {
	text, err := os.ReadFile("../experiment/testdata/bad/renamed.yaml")
	testutil.OK(t, err)
	head := store.Head{File: "old.yaml", Experiment: string(text), Seed: 1}
	if _, err := Result(head, nil); err != nil {
		t.Errorf("it cannot be reported: %v", err)
	}
	if _, _, err := Prepare(head); err == nil || !strings.Contains(err.Error(), `"same_as" of path "fast" is called "variant_of" now`) {
		t.Errorf("it can be resumed: %v", err)
	}
}

// A run of hopbench test that names no path is refused.
func TestRunOfATestWithoutPaths(t *testing.T) {
	if _, err := Result(store.Head{Test: &store.Test{}}, nil); err == nil || !strings.Contains(err.Error(), "names no path") {
		t.Errorf("%v", err)
	}
}
