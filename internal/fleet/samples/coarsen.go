package samples

import "time"

// coarsen puts the samples of a flow that begin in the same step together, counted from
// the first sample of all. Bytes and retransmits are added up; a round-trip time or
// window is the mean of those that are known.
func coarsen(samples []Sample, step time.Duration) []Sample {
	from := samples[0].At
	for _, s := range samples {
		from = min(from, s.At)
	}
	type cell struct {
		flow int
		step time.Duration
	}
	type mean struct{ rtt, rtts, window, windows int64 }
	var out []Sample
	var means []mean
	index := map[cell]int{}
	for _, s := range samples {
		at := cell{s.Flow, (s.At - from) / step}
		i, ok := index[at]
		if !ok {
			i = len(out)
			index[at] = i
			out = append(out, Sample{At: from + at.step*step, Flow: s.Flow})
			means = append(means, mean{})
		}
		out[i].Bytes += s.Bytes
		out[i].Retransmits += s.Retransmits
		if s.RTT > 0 {
			means[i].rtt += int64(s.RTT)
			means[i].rtts++
		}
		if s.CongestionWindow > 0 {
			means[i].window += s.CongestionWindow
			means[i].windows++
		}
	}
	for i, m := range means {
		out[i].RTT = time.Duration(m.rtt / max(m.rtts, 1))
		out[i].CongestionWindow = m.window / max(m.windows, 1)
	}
	return out
}
