package cli

import (
	"testing"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every bundled experiment has the blocks that a comparison takes, and --quick has no
// more than those of all.
func TestBundledExperimentsCanClaim(t *testing.T) {
	for _, name := range experiments.Names() {
		r, err := prepareRun(base.Streams{}, runFlags{}, name)
		testutil.OK(t, err)
		fewest, comparisons := analysis.FewestBlocks(), runner.Comparisons(r.e)
		if least := analysis.FewestBlocks(); comparisons == 0 || r.e.Blocks < least {
			t.Errorf("%s has %d blocks for %d comparisons; any takes %d", name, r.e.Blocks, comparisons, least)
		}
		quick, err := prepareRun(base.Streams{}, runFlags{quick: true}, name)
		testutil.OK(t, err)
		if quick.e.Blocks != fewest {
			t.Errorf("a quick run of %s has %d blocks, want %d", name, quick.e.Blocks, fewest)
		}
	}
}
