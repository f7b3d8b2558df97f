package gate

import "github.com/hopbench/hopbench/internal/measurement"

// instrument refuses a trial that was measured in another way than the first of its
// test: the difference of the two would be that of the ways as well as of the paths.
func (j *judge) instrument() {
	for _, key := range measurement.Instrument() {
		first, known := j.limits.Instrument[key]
		if now, ok := j.outcome.Effective[key]; known && ok && now != first {
			j.missing("instrument", measurement.Finding{Code: measurement.FoundOtherInstrument, Setting: key, Was: first, Is: now})
		}
	}
}
