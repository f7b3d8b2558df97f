// Package latency turns round-trip times into a measurement.Distribution. A
// Recorder keeps exact extremes and moments with an HdrHistogram of
// nanoseconds (three significant digits), records without allocating, counts
// what was never answered as infinitely late, and reports a percentile only where
// enough requests support it.
package latency

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hopbench/hopbench/internal/measurement"
)

const (
	// highest is the largest time the histogram tells apart; longer times are
	// kept in its last bucket, and exactly in Max and Mean.
	highest = 60 * time.Second
	// significantDigits bounds the histogram's relative error at 0.1 %.
	significantDigits = 3
	// exactSamples is how many first samples are also kept as they are, so
	// that the median of a short test (20 pings) is exact, not a bucket's edge.
	exactSamples = 1024
)

// curve is the percentiles that a Distribution may hold.
var curve = [...]float64{1, 5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 99.9999}

// Recorder collects the round-trip times of one test. It belongs to one
// goroutine at a time.
type Recorder struct {
	hist       *hdrhistogram.Histogram
	exact      []int64
	n          int64
	unanswered int64
	min, max   int64
	// step is the largest Resolution of what was merged.
	step int64
	// mean and m2 are Welford's running mean and sum of squared deviations
	// (Technometrics 4(3), 1962): no cancellation over millions of samples.
	mean, m2 float64
}

// New returns an empty Recorder; it allocates all that it will ever need.
func New() *Recorder {
	return &Recorder{
		hist:  hdrhistogram.New(1, int64(highest), significantDigits),
		exact: make([]int64, 0, exactSamples),
	}
}

// Record adds one round-trip time. A negative time, which only a broken clock
// gives, counts as zero. It does not allocate.
func (r *Recorder) Record(d time.Duration) {
	v := max(int64(d), 0)
	if r.n == 0 || v < r.min {
		r.min = v
	}
	if v > r.max {
		r.max = v
	}
	r.n++
	delta := float64(v) - r.mean
	r.mean += delta / float64(r.n)
	r.m2 += delta * (float64(v) - r.mean)
	if len(r.exact) < cap(r.exact) {
		r.exact = append(r.exact, v)
	}
	// The bucketed value is within the histogram's range by this very min, and
	// the count cannot overflow, so RecordValue has no error to report.
	_ = r.hist.RecordValue(min(v, int64(highest)))
}

// Lose counts requests that were due and have no round-trip time: in every
// percentile they come last.
func (r *Recorder) Lose(requests int64) { r.unanswered += requests }

// Samples is the number of recorded times.
func (r *Recorder) Samples() int64 { return r.n }

// Least is the shortest recorded time, 0 where there is none.
func (r *Recorder) Least() time.Duration { return time.Duration(r.min) }

// Unanswered is the number of requests that have none.
func (r *Recorder) Unanswered() int64 { return r.unanswered }

// Distribution summarises the samples. StdDev is the population's (divided by
// n), the same as the mdev of ping(8). With no sample all of these are zero.
func (r *Recorder) Distribution() measurement.Distribution {
	d := measurement.Distribution{Samples: r.n, Unanswered: r.unanswered}
	if r.n == 0 {
		return d
	}
	d.Min = nanoseconds(float64(r.min))
	d.Max = nanoseconds(float64(r.max))
	d.Mean = nanoseconds(r.mean)
	d.StdDev = nanoseconds(math.Sqrt(r.m2 / float64(r.n)))
	sorted := r.sorted()
	for _, p := range curve {
		if d.Lacks(p) == measurement.LacksNothing {
			d.Percentiles = append(d.Percentiles, measurement.Percentile{Percent: p, Value: nanoseconds(r.at(p, sorted))})
		}
	}
	d.Resolution = nanoseconds(float64(max(r.step, smallestStep(sorted))))
	d.HDR = r.encode()
	return d
}

// smallestStep is the smallest distance between two different times, which are sorted, or
// the time itself where all are the same: a clock has no larger steps.
func smallestStep(sorted []int64) int64 {
	if len(sorted) < 2 {
		return 0
	}
	step := int64(math.MaxInt64)
	for i, v := range sorted[1:] {
		if d := v - sorted[i]; d > 0 {
			step = min(step, d)
		}
	}
	if step == math.MaxInt64 {
		return sorted[0]
	}
	return step
}

// FillMetrics sets the round-trip metrics that the Catalogue lists for kind. The
// extremes and moments are of the answered; the percentiles are absent where they
// fall on a request without an answer, the 99th also without requests enough.
// Without any sample nothing is set.
func (r *Recorder) FillMetrics(m measurement.Metrics, kind measurement.Kind) {
	if r.n == 0 {
		return
	}
	sorted, d := r.sorted(), measurement.Distribution{Samples: r.n, Unanswered: r.unanswered}
	values := map[string]float64{
		"rtt_mean_seconds":               r.mean / 1e9,
		"rtt_min_seconds":                float64(r.min) / 1e9,
		"rtt_max_seconds":                float64(r.max) / 1e9,
		"rtt_standard_deviation_seconds": math.Sqrt(r.m2/float64(r.n)) / 1e9,
	}
	if d.Lacks(50) != measurement.LacksAnswer {
		values["rtt_p50_seconds"] = r.at(50, sorted) / 1e9
	}
	if d.Lacks(99) == measurement.LacksNothing {
		values["rtt_p99_seconds"] = r.at(99, sorted) / 1e9
	}
	for _, metric := range measurement.MetricsOf(kind) {
		if v, ok := values[metric.Name]; ok {
			m[metric.Name] = v
		}
	}
}

// Merge is a recorder of the samples of several distributions, which have all of them
// their histogram. Moments are combined by the pairwise update of Chan, Golub
// and LeVeque ("Updating formulae and a pairwise algorithm for computing sample
// variances", 1979).
func Merge(parts []measurement.Distribution) (*Recorder, error) {
	all := New()
	for i, d := range parts {
		all.unanswered += max(d.Unanswered, 0)
		if d.Samples <= 0 {
			continue
		}
		h, err := Decode(d.HDR)
		if err != nil {
			return nil, fmt.Errorf("histogram %d of %d: %w", i+1, len(parts), err)
		}
		if dropped := all.hist.Merge(h); dropped > 0 {
			return nil, fmt.Errorf("histogram %d of %d has %d samples out of range", i+1, len(parts), dropped)
		}
		all.step = max(all.step, int64(math.Round(float64(d.Resolution)*1e9)))
		least, most := int64(math.Round(float64(d.Min)*1e9)), int64(math.Round(float64(d.Max)*1e9))
		if all.n == 0 || least < all.min {
			all.min = least
		}
		all.max = max(all.max, most)
		before, more := float64(all.n), float64(d.Samples)
		delta := float64(d.Mean)*1e9 - all.mean
		spread := float64(d.StdDev) * 1e9
		all.n += d.Samples
		all.mean += delta * more / float64(all.n)
		all.m2 += more*spread*spread + delta*delta*before*more/float64(all.n)
	}
	return all, nil
}

// sorted are the exact samples in order.
func (r *Recorder) sorted() []int64 { return slices.Sorted(slices.Values(r.exact)) }

// at is the p-th percentile of the requests that were due, in nanoseconds, which
// must be one that was answered: interpolated between the two nearest ranks (Hyndman
// and Fan's type 7) when all samples are kept, else the histogram's, held within the
// exact extremes that a bucket's edge may overstep.
func (r *Recorder) at(p float64, sorted []int64) float64 {
	due := float64(r.n + r.unanswered)
	if r.n > int64(len(sorted)) {
		// The histogram holds the answered alone: the same rank is another percentile.
		v := r.hist.ValueAtPercentile(min(p*due/float64(r.n), 100))
		return float64(min(max(v, r.min), r.max))
	}
	pos := p / 100 * (due - 1)
	low := int(pos)
	if low+1 >= len(sorted) {
		return float64(sorted[len(sorted)-1])
	}
	frac := pos - float64(low)
	return float64(sorted[low])*(1-frac) + float64(sorted[low+1])*frac
}

func (r *Recorder) encode() []byte {
	text, err := r.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err == nil {
		var raw []byte
		if raw, err = base64.StdEncoding.AppendDecode(nil, text); err == nil {
			return raw
		}
	}
	// Encoding writes a valid histogram to memory; it has no way to fail.
	panic(fmt.Sprintf("latency: encode histogram: %v", err))
}

// Decode reads the HDR field of a Distribution, whose values are nanoseconds,
// so that histograms of several trials can be merged.
func Decode(hdr []byte) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode(base64.StdEncoding.AppendEncode(nil, hdr))
	if err != nil {
		return nil, fmt.Errorf("decode latency histogram: %w", err)
	}
	return h, nil
}

func nanoseconds(ns float64) measurement.Seconds { return measurement.Seconds(ns / 1e9) }
