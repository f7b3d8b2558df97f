package tcp

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// addMetrics fills in every metric of the Catalogue for tcp, over the window
// from..to in seconds since START. Those of the sender's socket are missing
// where its system has no TCP_INFO.
func (t *test) addMetrics(out *measurement.Outcome, from, to float64) {
	var there, back int64
	var info tcpinfo.Sums
	for _, f := range out.Flows {
		if f.Reverse {
			back += f.ReceivedBytes
		} else {
			there += f.ReceivedBytes
		}
		info.Add(f, from, to)
	}
	out.Metrics["goodput_bits_per_second"] = float64(there+back) * 8 / (to - from)
	if t.req.Spec.Direction == measurement.Both {
		out.Metrics["forward_goodput_bits_per_second"] = float64(there) * 8 / (to - from)
		out.Metrics["reverse_goodput_bits_per_second"] = float64(back) * 8 / (to - from)
	}
	info.Fill(out.Metrics)
}

// mostSeries is of how many flows an outcome keeps the series; with more, only
// the last sample of each, so that an outcome of any size can be passed on.
const mostSeries = 1000

// thinFlows does so for the flows of one of several tests that are kept together.
func thinFlows(flows []measurement.Flow, tests int) {
	if len(flows)*max(tests, 1) <= mostSeries {
		return
	}
	for i := range flows {
		flows[i].Info, flows[i].Receiver = nil, nil
	}
}
