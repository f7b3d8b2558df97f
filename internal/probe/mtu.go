package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

func runMTU(ctx context.Context, req Request) (measurement.Outcome, error) {
	return measurement.Outcome{}, sockets.ErrUnsupported
}

func serveMTU(w wire, open protocol.Open, ready protocol.Ready) error {
	return sockets.ErrUnsupported
}
