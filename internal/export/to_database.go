package export

import (
	"context"
	"errors"

	"github.com/hopbench/hopbench/internal/fleet/samples"
)

// errNoSamples says that a run is none of a fleet, or that its agents sent nothing.
var errNoSamples = errors.New("the run has no samples of a fleet's agents; --format parquet writes what its tests counted")

// Bounds of what is in memory on the way into a sink.
const (
	mostSinkBlocks = 10_000
	mostSinkBytes  = 32 << 20
)

// Into puts the samples of all trials into a sink and says how many blocks they are.
func Into(ctx context.Context, sink samples.Sink, run Run) (total int, err error) {
	var blocks []samples.Block
	bytes := 0
	flush := func() error {
		err := sink.Put(ctx, blocks)
		total += len(blocks)
		blocks, bytes = nil, 0
		return err
	}
	for _, t := range run.Result.Trials {
		for block, err := range run.Blocks(t.ID) {
			if err != nil {
				return total, err
			}
			blocks = append(blocks, block)
			if bytes += len(block.Data); bytes >= mostSinkBytes || len(blocks) == mostSinkBlocks {
				if err := flush(); err != nil {
					return total, err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return total, err
	}
	if total == 0 {
		return 0, errNoSamples
	}
	return total, nil
}
