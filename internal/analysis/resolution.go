package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// resolution is the standard uncertainty of a value because what it is counted in has
// steps, or the clocks that it is timed by are known within bounds: of type B, since trials
// that begin alike are wrong alike, and agree. More of them do not make it smaller.
type resolution struct {
	amount float64 // in the metric's unit
	share  float64 // of the value, or of its logarithm
}

// and is that of a difference, or a ratio, of two values (JCGM 100:2008, 5.1.2, 5.1.6).
func (r resolution) and(other resolution) resolution {
	return resolution{math.Hypot(r.amount, other.amount), math.Hypot(r.share, other.share)}
}

// oneReading is the standard uncertainty of a reading that has steps of 1: any value
// within half of one is as likely (JCGM 100:2008, 4.3.7, F.2.2.1).
var oneReading = 1 / math.Sqrt(12)

// counted is that of k counts that each are the difference of two readings: what began
// before the measured time, and what ends after it.
func counted(k float64) float64 { return math.Sqrt(2*k) * oneReading }

const (
	// cpuTick is in what steps a kernel accounts for CPU time, in seconds.
	cpuTick = 0.01
	// bucketShare is the width of a bucket of a histogram of times, as a share of the
	// time, at most; bucketsFrom is the number of samples from which a percentile is
	// taken from the histogram (package latency); that of several pairs always is.
	bucketShare = 1.0 / 1024
	bucketsFrom = 1025
	// typicalMSS is the payload of a segment over Ethernet, RFC 9293, 3.7.1, less the
	// time stamps, in bytes.
	typicalMSS = 1448
)

// resolutionOf is the standard uncertainty of a metric of one trial, v, by its
// resolution or the bound that is stated of it, in the metric's unit; 0 where neither is
// known, or a metric without such a bound is not compared.
func resolutionOf(t measurement.Trial, spec measurement.Spec, m measurement.Metric, v float64) float64 {
	if bound := t.Metrics[m.BoundedBy]; bound > 0 && statistics.Finite(bound) {
		return bound / math.Sqrt(3) // anywhere within is as likely (JCGM 100:2008, 4.3.7)
	}
	if !m.Compared || spec.Kind == measurement.FTP && m.Unit == measurement.BitsPerSecond {
		return 0 // a whole file has no segments that are cut
	}
	u, seconds := 0.0, float64(spec.Duration)
	flows := float64(max(1, spec.Flows, len(t.Flows)))
	switch m.Unit {
	case measurement.Fraction:
		u = oneReading / lookedAt(t, spec)
	case measurement.SecondsUnit:
		if d := t.Latency; d != nil {
			u = counted(1) * float64(d.Resolution)
			if d.Samples >= bucketsFrom || len(t.Pairs) > 1 {
				u = math.Hypot(u, oneReading*bucketShare*v)
			}
		}
	case measurement.SecondsPerByte:
		hosts, took := 1.0, t.Source.CPUTime
		if !t.Source.SameHost(t.Destination) {
			hosts, took = 2, took+t.Destination.CPUTime
		}
		u = counted(hosts) * cpuTick / float64(took) * v
	case measurement.BitsPerSecond:
		u = counted(flows) * unitBytes(t, spec) * 8 / seconds
	case measurement.Count:
		u = counted(flows) / seconds
	}
	if !(u > 0) || !statistics.Finite(u) {
		return 0
	}
	return u
}

// unitBytes is the payload of what a receiver of bytes cannot divide: a segment, or a
// datagram.
func unitBytes(t measurement.Trial, spec measurement.Spec) float64 {
	if spec.Kind == measurement.UDP {
		return t.Metrics["goodput_bits_per_second"] / 8 / t.Metrics["received_packets_per_second"]
	}
	for _, f := range t.Flows {
		if f.Final != nil && f.Final.MSS > 0 {
			return float64(f.Final.MSS)
		}
	}
	if t.Fingerprint != nil && t.Fingerprint.MSS > 0 {
		return float64(t.Fingerprint.MSS)
	}
	return typicalMSS
}

// resolution is that of the median trial of a cell.
func (s *dataset) resolution(path string, test result.TestInfo, m measurement.Metric) resolution {
	return resolutionOfTrials(s.cells[cellKey{path, test.Name}], test.Spec, m)
}

func resolutionOfTrials(trials []measurement.Trial, spec measurement.Spec, m measurement.Metric) resolution {
	var amounts, shares []float64
	for _, t := range trials {
		v, ok := t.Metrics[m.Name]
		if !ok || !statistics.Finite(v) {
			continue
		}
		u := resolutionOf(t, spec, m, v)
		amounts = append(amounts, u)
		if v > 0 {
			shares = append(shares, math.Min(1, u/v))
		}
	}
	return resolution{statistics.Median(amounts), statistics.Median(shares)}
}

// contrastResolution is that of an effect: of all values that it is the difference of;
// that of a level where there is no baseline.
func (s *dataset) contrastResolution(c result.Contrast, test result.TestInfo, m measurement.Metric) resolution {
	r := s.resolution(c.Path, test, m).and(s.resolution(c.Baseline, test, m))
	if c.Against != nil {
		r = r.and(s.contrastResolution(*c.Against, test, m))
	}
	return r
}

// expanded is how far a value of a standard uncertainty may be off at a confidence
// (JCGM 100:2008, 6.2.1).
func expanded(uncertainty, confidence float64) float64 {
	return statistics.NormalQuantile((1+confidence)/2) * uncertainty
}

// widened is an interval of an estimate with the resolution in it, as a further
// uncertainty that is independent of the trials' spread.
func widened(i statistics.Interval, estimate, reach float64) statistics.Interval {
	if reach == 0 || math.IsInf(estimate, 0) {
		return i
	}
	i.Low = math.Min(i.Low, estimate-math.Hypot(estimate-i.Low, reach))
	i.High = math.Max(i.High, estimate+math.Hypot(i.High-estimate, reach))
	return i
}

// widenedP is a two-sided p of an estimate with the resolution in it: that of a normal
// deviate whose standard error grows by the uncertainty.
func widenedP(p, estimate, uncertainty float64) float64 {
	if uncertainty == 0 || math.IsInf(estimate, 0) || !(p < 1) {
		return p
	}
	if estimate == 0 {
		return 1
	}
	z := statistics.NormalQuantile(p / 2)
	return math.Max(p, statistics.NormalTwoSided(1/math.Hypot(1/z, uncertainty/estimate)))
}

// uncertainty is the standard uncertainty of the effect by resolution, on its scale.
func (c *costEstimate) uncertainty() float64 {
	if c.logarithmic {
		return c.resolution.share
	}
	return c.resolution.amount
}

// reach is how far the estimate may be off by resolution, on the scale of effects.
func (c *costEstimate) reach() float64 { return expanded(c.uncertainty(), 1-c.alpha) }

// judgeP keeps a p, with the resolution in it.
func (c *costEstimate) judgeP(p float64) {
	p = widenedP(p, c.estimate, c.uncertainty())
	c.P = &p
}

// onMargin is a size on the scale of effects as one on the scale of the margin.
func (c *costEstimate) onMargin(size float64) float64 {
	switch {
	case !c.logarithmic:
		return size
	case c.metric.HigherIsBetter:
		return -math.Expm1(-size)
	}
	return math.Expm1(size)
}
