package clock

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// MaxDrift is more than an oscillator of a computer is off, and more than
	// adjtime(2) may slew (500 ppm, RFC 5905 appendix A.1): the drift is not known
	// better until exchanges of some time say so.
	MaxDrift = 500e-6
	// wander is by how much the drift may have changed over the exchanges that are
	// kept: temperature moves a crystal by some 1e-7 in minutes (RFC 5905 section
	// 4, the Allan intercept).
	wander = 1e-7
	// Of each window the exchange with the shortest round trip is kept, of so many
	// windows: the line that is fitted is of some four minutes at most.
	window  = 2 * time.Second
	windows = 128
	// enough windows tell the shortest round trip there is from one that was held up.
	enough = 8
	// resolution is what the stamps themselves may be wrong by.
	resolution = time.Microsecond
	// lineIsBetter is how much smaller the bound of one exchange has to be than that of the
	// line through all, over which what held up either direction of one averages out.
	lineIsBetter = 2
	// leastStep is how far beyond the bounds an exchange must be to be called a step.
	leastStep = time.Millisecond
)

// Estimator estimates the other clock from exchanges. The zero value is ready. It is for
// one goroutine at a time.
type Estimator struct {
	kept  []Exchange // in the order in which they were sent
	steps int
}

// Add takes an exchange, later than those before. What cannot be, a response before its
// request, is left out.
func (e *Estimator) Add(x Exchange) {
	if x.Heard < x.Sent || len(e.kept) > 0 && x.Sent < e.kept[len(e.kept)-1].Sent {
		return
	}
	if known, ok := e.Estimate(); ok {
		ahead, uncertainty := known.At(x.middle())
		// An exchange by itself bounds the offset: the other clock was read between
		// Sent and Heard.
		if beyond := (x.offset() - ahead).Abs() - uncertainty - x.bound(); beyond > 0 {
			if beyond > leastStep {
				e.steps++
			}
			e.kept = e.kept[:0] // the line that they were on goes on no longer
		}
	}
	if n := len(e.kept); n > 0 && x.Sent/window == e.kept[n-1].Sent/window {
		if x.roundTrip() < e.kept[n-1].roundTrip() {
			e.kept[n-1] = x
		}
		return
	}
	if len(e.kept) == windows {
		e.kept = slices.Delete(e.kept, 0, 1)
	}
	e.kept = append(e.kept, x)
}

func (x Exchange) roundTrip() time.Duration { return x.Heard - x.Sent }
func (x Exchange) middle() time.Duration    { return x.Sent + x.roundTrip()/2 }
func (x Exchange) offset() time.Duration    { return x.At - x.middle() }

// bound is of the error of offset, whatever the two directions took.
func (x Exchange) bound() time.Duration {
	return x.roundTrip()/2 + scaled(x.roundTrip(), MaxDrift) + resolution
}

// Estimate is what the exchanges say, false before the first.
//
// Offset and drift are of the line through the offsets of the exchanges, each weighted
// by how little its round trip exceeds the shortest. The error of an exchange's offset
// is half of the difference of what the two directions took. That of the shortest round
// trip, at most its half, is the same for all, so it moves the line and does not turn
// it; what the others took longer adds at most half of it each, in the parts in which
// they make up the line.
//
// A line through few exchanges, far apart, may say less of the present than one of them by
// itself does: then that is the estimate, with the line's drift.
func (e *Estimator) Estimate() (Estimate, bool) {
	if len(e.kept) == 0 {
		return Estimate{}, false
	}
	shortest := slices.MinFunc(e.kept, func(a, b Exchange) int { return cmp.Compare(a.roundTrip(), b.roundTrip()) })
	// spare is by how much half of the shortest may still be above what the path takes
	// at least: of many as much as one of the next best exceeds it, of few all of it.
	excess := make([]float64, len(e.kept)) // half of it, in seconds
	for i, x := range e.kept {
		excess[i] = (x.roundTrip() - shortest.roundTrip()).Seconds() / 2
	}
	spare := quartile(excess) + resolution.Seconds()
	if len(e.kept) < enough {
		spare = shortest.bound().Seconds()
	}
	first := e.kept[0].middle()
	at := func(x Exchange) float64 { return (x.middle() - first).Seconds() }
	value := func(x Exchange) float64 { return (x.offset() - shortest.offset()).Seconds() }

	weights := make([]float64, len(e.kept))
	sum, centre, mean := 0.0, 0.0, 0.0
	for i, x := range e.kept {
		w := 1 / (excess[i] + spare)
		weights[i] = w * w
		sum += weights[i]
		centre += weights[i] * at(x)
		mean += weights[i] * value(x)
	}
	centre, mean = centre/sum, mean/sum
	scatter, spread := 0.0, 0.0
	for i, x := range e.kept {
		away := at(x) - centre
		scatter += weights[i] / sum * excess[i]
		spread += weights[i] * away * away
	}
	drift, driftUncertainty := 0.0, math.Inf(1)
	if spread > 0 {
		driftUncertainty = wander
		for i, x := range e.kept {
			part := weights[i] * (at(x) - centre) / spread
			drift += part * value(x)
			driftUncertainty += math.Abs(part) * (excess[i] + spare)
		}
	}
	if driftUncertainty >= MaxDrift {
		// About the centre, whatever the drift is turns nothing.
		drift, driftUncertainty = 0, MaxDrift
	}
	last := e.kept[len(e.kept)-1].middle()
	line := Estimate{
		Offset: shortest.offset() + seconds(mean), Drift: drift, Reference: first + seconds(centre),
		Uncertainty:      shortest.bound() + seconds(scatter) + scaled(last-first, wander),
		DriftUncertainty: driftUncertainty, Span: last - first,
		Steps: e.steps,
	}
	best, bestUncertainty := line, line.uncertainty(last)/lineIsBetter
	for _, x := range e.kept {
		one := line
		one.Offset, one.Reference, one.Uncertainty = x.offset(), x.middle(), x.bound()
		if u := one.uncertainty(last); u < bestUncertainty {
			best, bestUncertainty = one, u
		}
	}
	return best, true
}

// uncertainty is the bound of the error at a time.
func (e Estimate) uncertainty(t time.Duration) time.Duration {
	_, u := e.At(t)
	return u
}

// quartile is the value that a quarter of all are not above.
func quartile(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/4]
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
