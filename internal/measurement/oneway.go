package measurement

// OneWay is what the one-way delays (RFC 7679) of a test are made of: times of packets by
// the clocks of both ends, and how the two clocks stood.
type OneWay struct {
	// Delays are differences of times: by the receiver's clock since START was at the
	// first flow of the destination or, where that is the receiver, of the source, less
	// the sender's by its own. Where the ends have one clock, they are the delays.
	Delays Delays `json:"delays"`
	// ToSource says that the destination sent.
	ToSource bool `json:"to_source,omitempty"`
	// Uncertainty bounds the error of the times themselves.
	Uncertainty Seconds `json:"uncertainty_seconds"`

	// AheadLeast and AheadMost are what the destination's clock was ahead of the
	// source's, both counted from the destination's and the source's START, at least and
	// at most, between From and To, seconds of the source's clock since START. All are 0
	// where the ends have one clock.
	AheadLeast Seconds `json:"ahead_least_seconds,omitempty"`
	AheadMost  Seconds `json:"ahead_most_seconds,omitempty"`
	From       Seconds `json:"from_seconds,omitempty"`
	To         Seconds `json:"to_seconds,omitempty"`
	// Exchanges is by how many exchanges of stamps over the path that is known.
	Exchanges int `json:"exchanges,omitempty"`
	// SourceStarted and DestinationStarted are both STARTs by the clocks that the two
	// ends show to others, 0 where nobody else may know these clocks.
	SourceStarted      int64 `json:"source_started_nanoseconds,omitempty"`
	DestinationStarted int64 `json:"destination_started_nanoseconds,omitempty"`
}

// Delays are the least, the median and the 99th percentile of the delays of packets.
type Delays struct {
	Least  Seconds `json:"least_seconds"`
	Median Seconds `json:"p50_seconds"`
	P99    Seconds `json:"p99_seconds"`
}

// Include adds those of a flow: of all flows the least one, and the largest of the other
// numbers.
func (o *OneWay) Include(first bool, d Delays, uncertainty Seconds) {
	if first {
		o.Delays = d
	}
	o.Delays = Delays{min(o.Delays.Least, d.Least), max(o.Delays.Median, d.Median), max(o.Delays.P99, d.P99)}
	o.Uncertainty = max(o.Uncertainty, uncertainty)
}

// Narrow takes other bounds of the same clocks into account, in seconds as AheadLeast is.
// It says whether they are tighter; bounds that contradict each other change nothing.
func (o *OneWay) Narrow(least, most Seconds) bool {
	least, most = max(least, o.AheadLeast), min(most, o.AheadMost)
	if !(least <= most) || most-least >= o.AheadMost-o.AheadLeast {
		return false
	}
	o.AheadLeast, o.AheadMost = least, most
	return true
}

// Fill sets the metrics: with the clocks in the middle between their bounds, so that the
// error is half of what lies between them. No packet arrives before it was sent; where one
// does beyond that error, nothing is known, and Fill says false.
func (o *OneWay) Fill(m Metrics) bool {
	later, bound := -(o.AheadLeast+o.AheadMost)/2, (o.AheadMost-o.AheadLeast)/2+o.Uncertainty
	if o.ToSource {
		later = -later
	}
	if o.Delays.Least+later < -bound {
		return false
	}
	m["one_way_delay_min_seconds"] = float64(max(o.Delays.Least+later, 0))
	m["one_way_delay_p50_seconds"] = float64(max(o.Delays.Median+later, 0))
	m["one_way_delay_p99_seconds"] = float64(max(o.Delays.P99+later, 0))
	m["one_way_delay_bound_seconds"] = float64(bound)
	return true
}
