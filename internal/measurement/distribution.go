package measurement

import "math"

// Distribution is a latency distribution: exact extremes and moments of the
// requests that were answered, with the percentile curve of all that were due. A
// request that was never answered took infinitely long (RFC 7679, section 4.1 says
// so of a packet's delay): a percentile that falls on one is absent, and so is one
// without [SamplesBeyond] requests beyond it. Lacks says which.
type Distribution struct {
	// Samples are the requests that were answered; Unanswered were due, but lost,
	// answered too late or never sent.
	Samples     int64        `json:"samples"`
	Unanswered  int64        `json:"unanswered,omitempty"`
	Min         Seconds      `json:"min_seconds"`
	Mean        Seconds      `json:"mean_seconds"`
	StdDev      Seconds      `json:"standard_deviation_seconds"`
	Max         Seconds      `json:"max_seconds"`
	Percentiles []Percentile `json:"percentiles"`
	// Resolution is the smallest distance between two of the times, which shows the steps
	// of a coarse clock; the time itself where all are the same.
	Resolution Seconds `json:"resolution_seconds,omitempty"`
	// HDR is the histogram of the answered in HdrHistogram's V2 compressed encoding
	// (nanoseconds), so that histograms of trials can be merged exactly.
	HDR []byte `json:"hdr_v2,omitempty"`
}

// Percentile is one point of a distribution's curve.
type Percentile struct {
	Percent float64 `json:"percent"`
	Value   Seconds `json:"value_seconds"`
}

// SamplesBeyond is how many requests must lie beyond a percentile, on its outer
// side.
const SamplesBeyond = 10

// NeededFor is the fewest requests that support a percentile.
func NeededFor(percent float64) int64 {
	return int64(math.Ceil(SamplesBeyond * 100 / min(percent, 100-percent) * (1 - 1e-9)))
}

// Lack is why there is no value at a percentile.
type Lack string

// The lacks.
const (
	LacksNothing Lack = ""
	LacksSamples Lack = "samples"
	LacksAnswer  Lack = "answer" // it falls on a request without one
)

// Due is how many requests the percentiles are over.
func (d Distribution) Due() int64 { return d.Samples + d.Unanswered }

// Lacks says what a percentile lacks to have a value.
func (d Distribution) Lacks(percent float64) Lack {
	due := d.Due()
	switch {
	case due > 0 && int64(math.Ceil(percent/100*float64(due-1))) >= d.Samples:
		return LacksAnswer
	case due < NeededFor(percent):
		return LacksSamples
	}
	return LacksNothing
}

// At is a point of the curve, where it has it.
func (d Distribution) At(percent float64) (Seconds, bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return p.Value, true
		}
	}
	return 0, false
}
