package probe

import (
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
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

const (
	// mostFacts bounds the facts of an outcome, mostEffective its effective settings,
	// and longestEffective each of them in runes: thousands of flows may all say
	// something else, and what each says is compared with what others said.
	mostFacts        = 200
	mostEffective    = 200
	longestEffective = 200
)

// appendNew adds facts, each once: flows share most of them.
func appendNew(list []string, more ...string) []string {
	for _, m := range more {
		if len(list) < mostFacts && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// addEffective adds what was effective for one flow of a test. Where flows
// differ, as buffers do that grow, the outcome has the range.
func addEffective(out *measurement.Outcome, ends ...map[string]string) {
	for _, effective := range ends {
		for k, v := range effective {
			old, ok := out.Effective[k]
			if ok && old != v {
				v = printable.Line(rangeOf(old, v), longestEffective)
			}
			if ok || len(out.Effective) < mostEffective {
				out.Effective[k] = v
			}
		}
	}
}
