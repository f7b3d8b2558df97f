package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/probe"
)

// What the loader of experiments accepts, the probe accepts too: with a spec it
// can do, it goes on to miss the target's address.
func checkSpecs(t *testing.T, e *experiment.Experiment) {
	t.Helper()
	for _, trial := range e.Scaled().Plan(1).Trials {
		_, err := probe.Run(t.Context(), probe.Request{Spec: trial.Spec}, nil)
		if err == nil || !strings.Contains(err.Error(), "no target address") {
			t.Errorf("test %s: %v\n%+v", trial.Test, err, trial.Spec)
		}
	}
}

// FuzzAcceptedTests holds the bounds of experiment files against those of the
// probe.
func FuzzAcceptedTests(f *testing.F) {
	for _, pattern := range []string{"../experiment/testdata/good/*.yaml", "../../experiments/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no files match %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := experiment.Load("my.yaml", text)
		if err != nil || len(e.Paths)*len(e.Tests)*e.Blocks > 1000 {
			return
		}
		checkSpecs(t, e)
	})
}
