package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// throughputProgress returns what reports, at each call, how fast bytes moved
// at this end since the call before: a sign of life, not a result.
func throughputProgress(start time.Time, moved func() int64, report func(measurement.Progress)) func() {
	last, lastAt := int64(0), start
	return func() {
		sum, now := moved(), time.Now()
		if dt := now.Sub(lastAt).Seconds(); dt > 0.01 {
			report(measurement.Progress{
				Elapsed:    measurement.SecondsOf(now.Sub(start)),
				Throughput: float64(sum-last) * 8 / dt,
			})
			last, lastAt = sum, now
		}
	}
}

// addEffective adds what was effective for one flow of a test. Where flows
// differ, as buffers do that grow, the outcome has the range.
func addEffective(out *measurement.Outcome, ends ...map[string]string) {
	for _, effective := range ends {
		for k, v := range effective {
			if old, ok := out.Effective[k]; ok && old != v {
				v = rangeOf(old, v)
			}
			out.Effective[k] = v
		}
	}
}
