package gate

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// pairs is how many pairs did the test, at least 1.
func (l Limits) pairs() int { return max(l.Pairs, 1) }

// maxNamedPairs bounds how many pairs a finding names.
const maxNamedPairs = 3

// pairs judges that every one of several pairs brought back what the test asks.
func (j *judge) pairs() {
	want := j.limits.pairs()
	if want == 1 {
		return
	}
	good := 0
	var failed, empty, short, unsampled []string
	for _, p := range j.outcome.Pairs {
		name := p.Source + " to " + p.Destination
		if p.Error != "" {
			failed = append(failed, name+": "+p.Error)
			continue
		}
		good++
		if j.spec.Kind != measurement.TCP {
			continue
		}
		if p.Metrics["goodput_bits_per_second"] <= 0 {
			empty = append(empty, name)
		}
		if p.Throughput == nil || p.Throughput.Width*measurement.Seconds(len(p.Throughput.Bytes)) < durationTolerance*j.spec.Duration {
			short = append(short, name)
		}
		if len(p.RTT) == 0 {
			unsampled = append(unsampled, name)
		}
	}
	if good < want {
		why := ""
		if len(failed) > 0 {
			why = "; " + named(failed, "; ")
		}
		j.fail("pairs", "%d of %d pairs brought back a result%s", good, want, why)
	}
	if len(empty) > 0 {
		j.fail("pairs", "no byte was confirmed in the measured time from %s", named(empty, ", "))
	}
	if len(short) > 0 && j.spec.Tool == measurement.Native {
		j.fail("pairs", "the count over time is missing or too short of %s", named(short, ", "))
	}
	if len(unsampled) > 0 && j.spec.Tool == measurement.Native {
		j.warn("pairs", "no round-trip time was sampled from %s", named(unsampled, ", "))
	}
}

// named lists the first few names and says how many more there are.
func named(names []string, separator string) string {
	if more := len(names) - maxNamedPairs; more > 0 {
		return strings.Join(names[:maxNamedPairs], separator) + fmt.Sprintf(" and %s more", quantity.Count(more, "pair"))
	}
	return strings.Join(names, separator)
}
