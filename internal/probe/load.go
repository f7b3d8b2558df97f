package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

func runLoad(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return measurement.Outcome{}, sockets.ErrUnsupported
}
