package report

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// leastReadings is how many readings a trial needs for their autocorrelation to
// be worth a word.
const leastReadings = 8

// readingsText says why the readings inside a trial are no samples, with their
// autocorrelation, where that is beyond that of independent readings in more
// trials than chance would have: one in twenty, and a little more.
func (m *Model) readingsText() []string {
	var all []float64
	beyond := 0
	for i := range m.Run.Trials {
		t := &m.Run.Trials[i]
		readings := readingsOf(t)
		if !t.Gate.Passed || len(readings) < leastReadings {
			continue
		}
		r, ok := analysis.Autocorrelation(readings)
		if !ok {
			continue
		}
		all = append(all, r)
		if math.Abs(r) > analysis.AutocorrelationLimit(len(readings)) {
			beyond++
		}
	}
	if 10*beyond <= len(all) {
		return nil
	}
	slices.Sort(all)
	return []string{typeset.Sentence(words.Autocorrelated(beyond, len(all), all[len(all)/2]))}
}

// readingsOf are the counts of the whole bins after the warm-up.
func readingsOf(t *measurement.Trial) []float64 {
	if t.Throughput == nil || !(t.Throughput.Width > 0) || !(t.Warmup >= 0) {
		return nil
	}
	bins := t.Throughput.Bytes
	first := math.Ceil(float64(t.Warmup/t.Throughput.Width) - 1e-9)
	last := len(bins) - 1 // the last bin may be cut short
	if first >= float64(last) {
		return nil
	}
	return bins[int(first):last]
}
