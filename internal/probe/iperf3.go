package probe

import (
	"context"
	"net/netip"

	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// newIPerf3Server is the part of a server that iperf3 clients talk to.
func newIPerf3Server(o ServerOptions) *iperf3.Server {
	denied := ""
	if o.Token != "" && !o.IPerf3Open {
		denied = "this server demands a token, which iperf3 cannot prove; --iperf3-open lets iperf3 clients in all the same"
	}
	return iperf3.NewServer(iperf3.Options{
		Denied:   denied,
		MaxTests: o.MaxTests, MaxStreams: min(o.MaxFlows, iperf3.MaxStreams), MaxDuration: o.MaxDuration,
		MaxRate: o.MaxRateBitsPerSecond, Log: o.Log,
	})
}

// iperf3Datagram hands a packet of the listening UDP socket to the iperf3
// server, which ignores what it does not know.
func (s *Server) iperf3Datagram(from netip.AddrPort, packet []byte) {
	if iperf3.IsHello(packet) {
		s.iperf3.Datagram(from, packet)
	}
}

func runIPerf3(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return measurement.Outcome{}, sockets.ErrUnsupported
}
