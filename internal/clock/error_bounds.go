package clock

import (
	"math"
	"slices"
	"time"
)

const (
	// mostLimits is how many exchanges bounds are made of: the work grows with their cube.
	mostLimits = 64
	// uneven is by how much the drift may change in the time of a test: a clock that is
	// disciplined over the network (RFC 5905) is corrected by some 1e-6 at a time.
	uneven = 2e-6
)

// limit is what one exchange says for certain: at a time of this clock the other one was
// ahead by no less than low and no more than high, all in seconds, high and low above a
// common origin.
type limit struct{ at, low, high float64 }

// Bounds is between what the other clock was ahead from one time of this clock to
// another, by exchanges in the order in which they were sent, of before, meanwhile and
// after; false where they say nothing, or contradict each other, as when a clock jumped.
//
// Of the path nothing is supposed: the other clock was read between Sent and Heard, so
// the request, however fast, says that it is no further ahead, and the response that it
// is no less. The two may be of different exchanges, so that what stays open is what the
// fastest request and the fastest response took. Of the clocks it is supposed that they
// drift apart by MaxDrift at most, evenly but for uneven; where the exchanges contradict
// that, as when a clock is being slewed, by MaxDrift at most.
func Bounds(exchanges []Exchange, from, to time.Duration) (least, most time.Duration, ok bool) {
	exchanges = thinned(exchanges)
	if len(exchanges) == 0 || to < from {
		return 0, 0, false
	}
	origin := exchanges[0].offset()
	first, last := exchanges[0], exchanges[len(exchanges)-1]
	span := max(to, last.middle()) - min(from, first.middle())
	limits := make([]limit, len(exchanges))
	times := []float64{from.Seconds(), to.Seconds()}
	for i, x := range exchanges {
		off := (x.offset() - origin).Seconds()
		open := (x.bound() + scaled(span, uneven)).Seconds()
		limits[i] = limit{x.middle().Seconds(), off - open, off + open}
		times = append(times, limits[i].at)
	}
	for _, even := range []bool{true, false} {
		if low, high, ok := boundsAt(limits, times, even); ok {
			return origin + seconds(low), origin + seconds(high), true
		}
	}
	return 0, 0, false
}

// thinned keeps the exchange with the shortest round trip of each few.
func thinned(exchanges []Exchange) []Exchange {
	each := (len(exchanges) + mostLimits - 1) / mostLimits
	if each <= 1 {
		return exchanges
	}
	var kept []Exchange
	for i, x := range exchanges {
		if i%each == 0 {
			kept = append(kept, x)
		} else if last := &kept[len(kept)-1]; x.roundTrip() < last.roundTrip() {
			*last = x
		}
	}
	return kept
}

// boundsAt are those from the first of the times to the second, false if the limits
// cannot all hold at all the times.
func boundsAt(limits []limit, times []float64, even bool) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	from, to := times[0], times[1]
	for i, t := range times {
		l, h := boundsOnce(limits, t, even)
		if !(l <= h) {
			return 0, 0, false
		}
		// On a line the ends bound all in between; what is not on a line may go away and
		// come back between two times at which it is known.
		if i < 2 || !even && t > from && t < to {
			low, high = min(low, l), max(high, h)
		}
	}
	if !even {
		away := MaxDrift * widestGap(times) / 2
		low, high = low-away, high+away
	}
	return low, high, true
}

// boundsOnce are those at one time, for clocks that drift evenly or not. A line, of an
// offset and a drift, is bounded by two limits at a time, or by one and the drift: these
// are all the corners of what a linear programme of two variables allows.
func boundsOnce(limits []limit, t float64, even bool) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	for i, a := range limits {
		away := MaxDrift * math.Abs(t-a.at)
		low, high = max(low, a.low-away), min(high, a.high+away)
		if !even {
			continue
		}
		for j, b := range limits {
			if i == j || a.at == b.at {
				continue
			}
			switch share := (t - a.at) / (b.at - a.at); {
			case share < 0: // a lies between
				low, high = max(low, a.low+share*(b.high-a.low)), min(high, a.high+share*(b.low-a.high))
			case share <= 1:
				low, high = max(low, a.low+share*(b.low-a.low)), min(high, a.high+share*(b.high-a.high))
			}
		}
	}
	return low, high
}

// widestGap is that between two neighbours of times within the first and the second.
func widestGap(times []float64) (widest float64) {
	within := slices.DeleteFunc(slices.Sorted(slices.Values(times)), func(t float64) bool { return t < times[0] || t > times[1] })
	for i := 1; i < len(within); i++ {
		widest = max(widest, within[i]-within[i-1])
	}
	return widest
}
