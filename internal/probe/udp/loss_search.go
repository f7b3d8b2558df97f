package udp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

const (
	// searchSteps is how many steps a search is planned with, so that each
	// gets its share of the duration; the last, which confirms, gets two.
	searchSteps  = 10
	shortestStep = 50 * time.Millisecond
	// stepWarmup is the part of a step that is discarded.
	stepWarmup = 0.2
	// searchClose ends a search: the rates that passed and failed are closer.
	searchClose = 1.01
	// stepTries of a step so short that a busy sender missed it.
	stepTries = 3
	// backOff is how much a rate is lowered whose confirmation fails, and confirmTries how
	// many rates are tried: none of them twice, so that no rate passes as the best of
	// several tries.
	backOff      = 0.97
	confirmTries = 3
	// farBelow is by how much a rate is divided of which nothing arrived: it says that the
	// path carries less, and not how much.
	farBelow = 16
)

// rateSearch finds the highest rate of which no more than a bound is lost. It
// knows nothing of networks: next says what to try, add what that gave.
type rateSearch struct {
	bound float64
	most  float64 // bit/s, 0 for as fast as the sender can
	steps []measurement.LossStep
	// passed is the highest rate that passed, failed the lowest that did not; 0
	// if none. unlimited says that even the first step passed.
	passed, failed float64
	unlimited      bool
	// ended is what the step of the lowest rate that failed brought: it ended the search.
	ended measurement.Outcome
	// silent is why nothing arrived in a step; arrived says that something did in another.
	silent  error
	arrived bool
}

// next is the rate of the next step, 0 for as fast as the sender can.
func (s *rateSearch) next() float64 {
	switch {
	case len(s.steps) == 0:
		return s.most
	case s.passed > 0:
		return math.Sqrt(s.passed * s.failed)
	case len(s.steps) == 1:
		// What came through an overloaded path is a good guess at its rate.
		if got := s.steps[0].ReceivedBitsPerSecond; got > 0 && got < s.failed {
			return got
		}
	}
	if s.steps[len(s.steps)-1].Loss >= 1 {
		return s.failed / farBelow
	}
	return s.failed / 2
}

// add takes what a step gave and says whether the search is over.
func (s *rateSearch) add(step measurement.LossStep) bool {
	s.steps = append(s.steps, step)
	if step.Loss <= s.bound {
		s.passed = max(s.passed, step.OfferedBitsPerSecond)
		s.unlimited = s.unlimited || len(s.steps) == 1
	} else if s.failed == 0 || step.OfferedBitsPerSecond < s.failed {
		s.failed = step.OfferedBitsPerSecond
		// Loss comes and goes; the lower rate is what counts.
		s.passed = min(s.passed, s.failed/searchClose)
	}
	return s.unlimited || s.passed > 0 && s.failed/s.passed <= searchClose*searchClose
}

// searchLoss searches for the highest rate under the spec's bound of loss. All
// of it takes about the spec's Duration: the steps have equal shares, warm-up
// included, and the last confirms the rate and gives the metrics. Every step is
// a test of its own, with connections of its own.
func searchLoss(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	share := max(req.Spec.Duration.Duration()/(searchSteps+2), shortestStep)
	began, sign := time.Now(), progress
	progress = func(p measurement.Progress) { // who watches sees one test
		p.Elapsed = measurement.SecondsOf(time.Since(began))
		sign(p)
	}
	deadline := time.Now().Add(req.Spec.Duration.Duration() - 2*share)
	s := &rateSearch{bound: req.Spec.LossBound, most: req.Spec.RateBitsPerSecond}
	try := func(rate float64, length time.Duration) (measurement.Outcome, measurement.LossStep, error) {
		out, step, err := searchStep(ctx, req, rate, length, progress)
		out, step, err = s.lostAll(out, step, err)
		s.arrived = s.arrived || step.Loss < 1
		return out, step, err
	}
	for done := false; !done && (len(s.steps) < 2 || time.Now().Before(deadline)); {
		out, step, err := try(s.next(), share)
		if err != nil {
			return measurement.Outcome{}, err
		}
		if done = s.add(step); step.Loss > s.bound && step.OfferedBitsPerSecond == s.failed {
			s.ended = out
		}
	}
	out, err := s.confirm(func(rate float64) (measurement.Outcome, measurement.LossStep, error) { return try(rate, 2*share) })
	if err == nil && !s.arrived {
		return measurement.Outcome{}, s.silent // it says more than that no rate was found
	}
	return out, err
}

// lostAll has a step in which nothing arrived be one that lost all: a path that is flooded may
// carry less.
func (s *rateSearch) lostAll(out measurement.Outcome, step measurement.LossStep, err error) (measurement.Outcome, measurement.LossStep, error) {
	none, is := errors.AsType[*nothingArrived](err)
	if !is {
		return out, step, err
	}
	s.silent = err
	out.Metrics = measurement.Metrics{"sent_bits_per_second": none.bitsPerSecond, "loss_fraction": 1}
	return out, measurement.LossStep{OfferedBitsPerSecond: none.bitsPerSecond, Loss: 1, Packets: none.sent}, nil
}

// confirm measures at the rate that was found, and lower when too much is lost
// there after all. Its outcome is of the rate that kept to the bound, the last step's, with
// what the ends lost in the step that ended the search; where none did, it has no rate at all.
func (s *rateSearch) confirm(at func(rate float64) (measurement.Outcome, measurement.LossStep, error)) (measurement.Outcome, error) {
	rate := s.passed
	if s.unlimited {
		rate = s.most
	} else if rate == 0 {
		rate = s.next()
	}
	for try := 1; ; try++ {
		out, step, err := at(rate)
		if err != nil {
			return measurement.Outcome{}, err
		}
		s.steps = append(s.steps, step)
		if step.Loss > s.bound && try < confirmTries {
			s.ended, rate = out, step.OfferedBitsPerSecond*backOff
			continue
		}
		out.LossSearch = s.steps
		if step.Loss > s.bound {
			out.Metrics, out.OneWay = measurement.Metrics{"loss_fraction": step.Loss}, nil
			out.Facts = append(out.Facts, fmt.Sprintf("even at %.4g bit/s, the last rate of the search, more than the bound of %g was lost: %.2g", step.OfferedBitsPerSecond, s.bound, step.Loss))
		}
		if step.Loss <= s.bound {
			out.Source.Drops = withDrops(out.Source.Drops, s.ended.Source.Drops)
			out.Destination.Drops = withDrops(out.Destination.Drops, s.ended.Destination.Drops)
		}
		if s.unlimited {
			out.Facts = append(out.Facts, "the search never reached its bound of loss: the sender was not fast enough, or its rate was bounded")
		}
		return out, nil
	}
}

// withDrops adds the packets that an end lost in one step to those of another.
func withDrops(drops, more []measurement.Drop) []measurement.Drop {
	for _, d := range more {
		i := slices.IndexFunc(drops, func(known measurement.Drop) bool {
			return known.Place == d.Place && known.HostWide == d.HostWide
		})
		if i < 0 {
			drops = append(drops, d)
		} else {
			drops[i].Packets += d.Packets
		}
	}
	return drops
}

// searchStep measures at one rate.
func searchStep(ctx context.Context, req session.Request, rate float64, length time.Duration, progress func(measurement.Progress)) (measurement.Outcome, measurement.LossStep, error) {
	spec := req.Spec
	spec.RateBitsPerSecond = rate
	spec.MaxWarmup = measurement.Seconds(stepWarmup * length.Seconds())
	spec.Duration = measurement.SecondsOf(length) - spec.MaxWarmup
	// A sub-test is bounded by itself, as the whole is: one that hangs ends.
	ctx, cancel := context.WithTimeoutCause(ctx, session.SetupTime(spec)+session.Planned(spec)+2*grace, session.ErrSilent)
	defer cancel()
	req.Spec = spec
	out, err := measure(ctx, req, progress)
	for try := 1; try < stepTries && errors.Is(err, errNothingSent); try++ {
		out, err = measure(ctx, req, progress)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(err, cause)
		}
		return out, measurement.LossStep{}, fmt.Errorf("step of the search at %.4g bit/s: %w", rate, err)
	}
	m := out.Metrics
	step := measurement.LossStep{OfferedBitsPerSecond: m["sent_bits_per_second"], Loss: m["loss_fraction"]}
	if packets, ok := out.LossOf(spec); ok {
		step.Packets = int64(math.Round(packets))
	}
	step.ReceivedBitsPerSecond = step.OfferedBitsPerSecond * (1 - step.Loss)
	return out, step, nil
}
