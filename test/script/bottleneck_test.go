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
// between two hosts names its rate, and whether each flow has it once more flows were tried.
func TestHopsRateBetweenHosts(t *testing.T) {
	for _, tool := range []string{"ip", "tc", "ss"} {
		_, err := exec.LookPath(tool)
		testutil.Need(t, err == nil, tool)
	}
	t.Setenv(binaryEnv, build(t))
	testutil.InNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, func(t *testing.T) {
		script, err := filepath.Abs("hop.sh")
		testutil.OK(t, err)
		for _, hop := range []struct {
			eachFlow string
			options  []string
			cause    result.Cause
			rate     float64
		}{
			{"", nil, result.CauseHopRate, 200e6},
			{"1", []string{"--cport", "40000", "--explain"}, result.CauseHopFlowRate, 100e6},
		} {
			testHop(t, script, hop.eachFlow, hop.options, hop.cause, hop.rate)
		}
	})
}

func testHop(t *testing.T, script, eachFlow string, options []string, cause result.Cause, rate float64) {
	testutil.Longer(t, func(factor float64) string {
		command := []string{"--net", "--mount", "sh", script, os.Getenv(binaryEnv), "test", "10.2.0.1", "--json",
			"-t", fmt.Sprintf("%dms", int(500*factor)), "-O", "200ms", "-C", "cubic"}
		c := exec.Command("unshare", append(command, options...)...)
		c.Env = append(os.Environ(), "EACH_FLOW="+eachFlow)
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
		if a.Shares[cause] < 0.5 || math.Abs(a.RateBitsPerSecond-rate) > 0.1*rate {
			return fmt.Sprintf("%+v, want %s of %v bit/s", a, cause, rate)
		}
		return ""
	})
}
