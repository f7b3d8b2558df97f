package gate

import (
	"math"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// judges are the ways to judge that descriptors of kinds name.
var judges = map[kind.Judge]func(j *judge, metric string){
	kind.JudgeFlows:       (*judge).streams,
	kind.JudgePackets:     (*judge).packets,
	kind.JudgeConnections: (*judge).connections,
	kind.JudgeTransfer:    (*judge).transfer,
}

// kind judges what a test of a kind brought back.
func (j *judge) kind() {
	k, known := kind.Of(j.spec.Kind)
	if !known {
		j.missing("test", measurement.Finding{Code: measurement.FoundUnknownKind, Kind: j.spec.Kind})
		return
	}
	for _, g := range k.Gates {
		judges[g.Judge](j, g.Metric)
	}
	for _, l := range k.Latencies {
		j.latency(l)
	}
}

// connections judges a test of new connections, of which as many failed as a metric says.
func (j *judge) connections(metric string) {
	failed := j.outcome.Metrics[metric]
	done := 0.0
	if d := j.outcome.Latency; d != nil {
		done = float64(d.Samples)
	}
	f := measurement.Finding{Code: measurement.FoundFailedConnections, Count: int(math.Round(failed)), Of: int(math.Round(done + failed))}
	switch share := failed / max(done+failed, 1); {
	case share > failuresFail:
		j.broken("connections", f)
	case share > failuresWarn:
		j.warn("connections", f)
	}
}

// transfer judges one of a file, which took as long as a metric says.
func (j *judge) transfer(metric string) {
	if took := j.outcome.Metrics[metric]; took > 0 && took < shortTransfer {
		j.warn("short", measurement.Finding{Code: measurement.FoundShortTransfer, Measured: measurement.Seconds(took)})
	}
}
