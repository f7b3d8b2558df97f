package labtest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { Main(m) }

// Every fault on real wires is caught by its gate, as what it is, and where there is
// none no gate speaks.
func TestGatesCatchTheirFaults(t *testing.T) {
	e, err := Faulty()
	testutil.OK(t, err)
	shared := &faultyLab{experiment: e}
	defer shared.close() // before those that wait begin
	for _, f := range Faults() {
		if f.Long && !testutil.AtLength() {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			if f.Waits {
				t.Parallel()
			}
			for k := range testutil.Repeat(1, 3) {
				if !f.Waits {
					shared.try(t, f)
					continue
				}
				t.Run(strconv.Itoa(k+1), func(t *testing.T) {
					t.Parallel()
					own := &faultyLab{experiment: e}
					defer own.close()
					own.try(t, f)
				})
			}
		})
	}
}

// faultyLab makes its lab when one is needed.
type faultyLab struct {
	experiment *experiment.Experiment
	lab        *testbedlab.Lab
}

func (l *faultyLab) close() {
	if l.lab != nil {
		l.lab.Close()
		l.lab = nil
	}
}

func (l *faultyLab) try(t *testing.T, f Fault) {
	var said string
	// What a busy machine does not bring at once, it may bring later.
	for range 3 {
		if l.lab == nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var err error
			l.lab, err = testbedlab.New(ctx, l.experiment)
			cancel()
			testutil.Need(t, err == nil, fmt.Sprintf("a machine on which labs can be made: %v", err))
		}
		done, err := f.Try(t.Context(), l.lab)
		testutil.OK(t, err)
		if f.Deadly {
			l.close()
		}
		if said = f.Misjudged(done.Gate); said == "" {
			return
		}
		t.Log(said)
	}
	t.Fatal(said)
}
