package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
)

func searchLoss(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return measurement.Outcome{}, nil
}
