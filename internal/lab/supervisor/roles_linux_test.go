package supervisor

import (
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

// However few CPUs there are, a link's directions leave the Go scheduler a
// processor, whether it inspects or not.
func TestLinkHasProcessorsForBothDirections(t *testing.T) {
	for name, job := range map[string]linkJob{"plain": {}, "off": {IDPS: &topology.IDPS{Mode: "off"}}} {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			_, _, err := job.emulator([2]*linkem.Port{{}, {}})
			testutil.OK(t, err)
			if got := runtime.GOMAXPROCS(0); got <= 2 {
				t.Errorf("%d processors for two directions", got)
			}
		})
	}
}
