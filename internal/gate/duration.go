package gate

import "github.com/hopbench/hopbench/internal/measurement"

// duration checks that enough of the planned time was measured. A peer that
// speaks iperf3 may bring no series; what it received at its rate then gives
// the time.
func (j *judge) duration(goodput float64) {
	var covered measurement.Seconds
	needed := durationTolerance * j.spec.Duration
	switch b := j.outcome.Throughput; {
	case b != nil:
		covered = max(b.Width*measurement.Seconds(len(b.Bytes))-j.outcome.Warmup, 0) // of pairs the last may start when the first has ended
	case j.spec.Tool == measurement.IPerf3:
		received := measurement.ReceivedBytes(j.outcome.Flows)
		if received == 0 {
			return // nothing to judge by
		}
		covered = measurement.Seconds(float64(received) * 8 / goodput)
		needed = min(needed, j.spec.Duration-lateServer)
	default:
		j.missing("duration", measurement.Finding{Code: measurement.FoundNoSeries})
		return
	}
	if covered < needed {
		j.missing("duration", measurement.Finding{Code: measurement.FoundCutShort, Measured: covered, Planned: j.spec.Duration})
	}
}
