package script_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A hop that has no name, and says nothing of itself, is found by what it does: the test
// between two hosts names its rate.
func TestHopsRateBetweenHosts(t *testing.T) {
	for _, tool := range []string{"ip", "tc", "ss"} {
		_, err := exec.LookPath(tool)
		testutil.Need(t, err == nil, tool)
	}
	t.Setenv(binaryEnv, build(t))
	testutil.InNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, func(t *testing.T) {
		const rate = 200e6
		script, err := filepath.Abs("hop.sh")
		testutil.OK(t, err)
		testutil.Longer(t, func(factor float64) string {
			c := exec.Command("unshare", "--net", "--mount", "sh", script, os.Getenv(binaryEnv), "test", "10.2.0.1", "--json",
				"-t", fmt.Sprintf("%dms", int(500*factor)), "-O", "200ms", "-C", "cubic")
			c.Dir = t.TempDir()
			text, err := c.Output()
			if err != nil {
				return fmt.Sprintf("%v: %s", err, text)
			}
			var r result.Result
			testutil.OK(t, json.Unmarshal(text, &r))
			if len(r.Attributions) != 1 {
				return fmt.Sprintf("attributions %+v", r.Attributions)
			}
			a := r.Attributions[0]
			if a.Shares[result.CauseHopRate] < 0.5 || math.Abs(a.RateBitsPerSecond-rate) > 0.1*rate {
				return fmt.Sprintf("%+v, want a hop of %v bit/s", a, rate)
			}
			return ""
		})
	})
}
