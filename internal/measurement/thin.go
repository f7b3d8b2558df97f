package measurement

import "math"

// Bounds of the series that a result keeps of the senders' TCP_INFO.
const (
	// wholeSeries is the number of flows up to which each keeps its series.
	wholeSeries = 8
	// samplesPerFlow is what each of more flows keeps at most, samplesInAll what
	// they keep together. A flow that could not keep where its measured time
	// begins and its end keeps none: thousands of flows have their totals.
	samplesPerFlow = 20
	samplesInAll   = 10_000
	// hopSamplesInAll is how many samples all hops together keep at most, and
	// hopSamples how many each keeps at least.
	hopSamplesInAll = 2_000
	hopSamples      = 20
)

// Thin drops samples of the hops' counters where there are many hops, and
// of the flows' TCP_INFO series where there are many flows:
// of ten flows, the series would be nine tenths of a result. The kernel's times
// and counts are totals, so little is lost; the sample that is nearest to the
// end of the warm-up, from which they are counted, stays, and so does the last.
// A thinned outcome stays as it is.
func (o *Outcome) Thin() { o.ThinAmong(1) }

// ThinAmong is Thin for one of several outcomes of as many flows each that are
// kept together.
func (o *Outcome) ThinAmong(outcomes int) {
	for i := range o.HopSeries {
		keep := max(hopSamples, hopSamplesInAll/len(o.HopSeries))
		o.HopSeries[i].Samples = thinned(o.HopSeries[i].Samples, keep, o.Warmup, func(s HopSample) Seconds { return s.At })
	}
	o.LabCPU = thinned(o.LabCPU, hopSamplesInAll, o.Warmup, func(s CPUSample) Seconds { return s.At })
	flows := len(o.Flows) * max(outcomes, 1)
	if flows <= wholeSeries {
		return
	}
	keep := min(samplesPerFlow, samplesInAll/flows)
	for i := range o.Flows {
		o.Flows[i].Info = thinned(o.Flows[i].Info, keep, o.Warmup, func(s TCPInfo) Seconds { return s.At })
		o.Flows[i].Receiver = thinned(o.Flows[i].Receiver, keep, o.Warmup, func(s ReceiverInfo) Seconds { return s.At })
	}
}

// thinned keeps so many of the samples, evenly spread.
func thinned[T any](info []T, keep int, warmup Seconds, at func(T) Seconds) []T {
	switch {
	case keep < 2:
		return nil
	case len(info) <= keep:
		return info
	}
	last := len(info) - 1
	opens, distance := 0, math.Inf(1)
	for i, s := range info[:last] {
		if d := math.Abs(float64(at(s) - warmup)); d <= distance {
			opens, distance = i, d
		}
	}
	out := make([]T, keep)
	nearest := 0
	for i := range out {
		from := i * last / (keep - 1)
		out[i] = info[from]
		if i < keep-1 && abs(from-opens) < abs(nearest*last/(keep-1)-opens) {
			nearest = i
		}
	}
	out[nearest] = info[opens]
	return out
}

func abs(n int) int { return max(n, -n) }
