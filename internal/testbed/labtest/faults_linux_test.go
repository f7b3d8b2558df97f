package labtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { Main(m) }

// Every fault on real wires is caught by its gate, as what it is, and where there is
// none no gate speaks.
func TestGatesCatchTheirFaults(t *testing.T) {
	e, err := Faulty()
	testutil.OK(t, err)
	var l *testbedlab.Lab
	defer func() {
		if l != nil {
			l.Close()
		}
	}()
	for _, f := range Faults() {
		if f.Long && !testutil.AtLength() {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			for range testutil.Repeat(1, 3) {
				var said string
				// What a busy machine does not bring at once, it may bring later.
				for range 3 {
					if l == nil {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						l, err = testbedlab.New(ctx, e)
						cancel()
						testutil.Need(t, err == nil, fmt.Sprintf("a machine on which labs can be made: %v", err))
					}
					done, err := f.Try(t.Context(), l)
					testutil.OK(t, err)
					if f.Deadly {
						l.Close()
						l = nil
					}
					if said = f.Misjudged(done.Gate); said == "" {
						break
					}
					t.Log(said)
				}
				if said != "" {
					t.Fatal(said)
				}
			}
		})
	}
}
