package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

func runPackets(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return measurement.Outcome{}, sockets.ErrUnsupported
}

func (s *Server) servePackets(w wire, open protocol.Open, ready protocol.Ready) error {
	return sockets.ErrUnsupported
}
