package load

import (
	"slices"
	"time"
)

// keptFraction of the round trips, the fastest of them, make the trimmed mean.
const keptFraction = 0.95

// responsiveness is the number of round trips that fit one after the other
// into a minute: 60 s divided by the mean of the round trips up to their 95th
// percentile, as draft-ietf-ippm-responsiveness trims it ("Responsiveness
// under Working Conditions"). It sorts rtts. Requests without an answer are among the
// slowest; where they are more than the part that is trimmed, there is no mean.
//
// The draft's own figure averages over probes of HTTP/2 requests, on
// connections made for them (with a share for each of the handshakes of TCP
// and TLS) and on the connections that make the load. This one is of one kind
// of round trip, a request and its response during the load, and its load has a
// fixed number of flows. It is therefore comparable with itself, not with the
// figure of a tool that follows the draft.
func responsiveness(rtts []time.Duration, unanswered int) (perMinute float64, ok bool) {
	kept := max(int(float64(len(rtts)+unanswered)*keptFraction), 1)
	if kept > len(rtts) {
		return 0, false
	}
	slices.Sort(rtts)
	var sum float64
	for _, rtt := range rtts[:kept] {
		sum += rtt.Seconds()
	}
	if sum <= 0 {
		return 0, false
	}
	return 60 * float64(kept) / sum, true
}
