package experiment

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// FuzzLoad: whatever the bytes, loading ends with an experiment that can be
// scaled and planned, or with strict.Errors that point into the file.
func FuzzLoad(f *testing.F) {
	for _, name := range experiments.Names() {
		text, err := experiments.Read(name)
		testutil.OK(f, err)
		f.Add(text)
	}
	for _, text := range testutil.Files(f, "testdata/*/*.yaml") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Load("my.yaml", text)
		if err != nil {
			if e != nil {
				t.Fatalf("got %v and %v", e, err)
			}
			stricttest.CheckErrors(t, err, text)
			return
		}
		checkAccepted(t, e)
	})
}

func checkAccepted(t *testing.T, e *Experiment) {
	t.Helper()
	s := e.Scaled()
	if !reflect.DeepEqual(s.Scaled(), s) {
		t.Error("scaling twice is not scaling once")
	}
	for _, endpoint := range s.Endpoints {
		if r := endpoint.EgressBitsPerSecond; r != 0 && r < minRateBitsPerSecond*0.999 {
			t.Errorf("scaled egress %v", r)
		}
		if w := endpoint.ReceiveWindowBytes; w != 0 && w < minWindowBytes-1 {
			t.Errorf("scaled window %d", w)
		}
	}
	for _, test := range s.Tests {
		for _, b := range []int64{test.Spec.SendBufferBytes, test.Spec.ReceiveBufferBytes} {
			if b != 0 && b < minWindowBytes-1 {
				t.Errorf("scaled socket buffer %d", b)
			}
		}
		for _, r := range []float64{test.Spec.RateBitsPerSecond, test.Spec.PacingBitsPerSecond} {
			if r != 0 && r < minRateBitsPerSecond*0.999 {
				t.Errorf("scaled rate %v", r)
			}
		}
	}
	few, err := s.With(Overrides{Blocks: 2, Full: true})
	testutil.OK(t, err)
	for _, x := range []*Experiment{s, few} {
		plan := x.Plan(7)
		if len(plan.Trials) != x.Blocks*len(x.Paths)*len(x.Tests) || len(plan.Trials) == 0 {
			t.Fatalf("%d trials planned", len(plan.Trials))
		}
		ids := make(map[string]bool, len(plan.Trials))
		for _, trial := range plan.Trials {
			if ids[trial.ID] || trial.Spec != trial.Spec.Defaults() || trial.Spec.ExpectedDuration() < 0 {
				t.Fatalf("planned %+v", trial)
			}
			ids[trial.ID] = true
			if err := kind.Check(trial.Spec).Err(); err != nil {
				t.Fatalf("%s is planned, and cannot be done: %v", trial.ID, err)
			}
		}
		if plan.ExpectedDuration(0) <= 0 {
			t.Errorf("the plan takes %v", plan.ExpectedDuration(0))
		}
	}
	if e.Info().Name == "" || len(e.PathInfos()) < 2 || len(e.TestInfos()) < 1 {
		t.Error("the experiment does not describe itself")
	}
}

// What good files say is in what is loaded, whichever line ends they have.
func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good files: %v", err)
	}
	for _, file := range append(files, "../../bench/idps.yaml") {
		text, err := os.ReadFile(file)
		testutil.OK(t, err)
		e, err := Load(file, text)
		if err != nil {
			t.Errorf("load %s:\n%v", file, err)
			continue
		}
		checkAccepted(t, e)
	}
}
