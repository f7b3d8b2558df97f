package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// growth scales the hops of a path out in the middle of a trial. It belongs to
// Measure, which begins and ends it.
type growth struct {
	scale   func(ctx context.Context, hop string, instances int) error
	steps   []lab.ScaleOut
	started chan time.Time // when the trial's traffic did
	stop    context.CancelFunc
	done    chan struct{} // closed when facts and err are complete
	facts   []string
	err     error
}

// grow brings the hops of a path back to the instances that a trial begins
// with, and has them grow when their moments of the trial come.
func (l *Lab) grow(ctx context.Context, p lab.Path) (*growth, error) {
	return startGrowth(ctx, p.ScaleOuts, func(ctx context.Context, hop string, instances int) error {
		return l.lab.Scale(ctx, p, hop, instances)
	})
}

func startGrowth(ctx context.Context, steps []lab.ScaleOut, scale func(ctx context.Context, hop string, instances int) error) (*growth, error) {
	g := &growth{scale: scale, steps: steps, started: make(chan time.Time, 1), done: make(chan struct{})}
	for _, s := range g.steps {
		if err := g.scale(ctx, s.Hop, s.Before); err != nil {
			return nil, err
		}
	}
	ctx, g.stop = context.WithCancel(ctx)
	go func() {
		defer close(g.done)
		g.run(ctx)
	}()
	return g, nil
}

// watching passes progress on and learns from it when the traffic started.
func (g *growth) watching(progress func(measurement.Progress)) func(measurement.Progress) {
	return func(p measurement.Progress) {
		select {
		case g.started <- time.Now().Add(-p.Elapsed.Duration()):
		default: // known
		}
		if progress != nil {
			progress(p)
		}
	}
}

// run does one step after the other; their moments may come in any order.
func (g *growth) run(ctx context.Context) {
	if len(g.steps) == 0 {
		return
	}
	var start time.Time
	select {
	case start = <-g.started:
	case <-ctx.Done():
		g.missed(g.steps)
		return
	}
	for left := g.steps; len(left) > 0; {
		next, rest := soonest(left)
		timer := time.NewTimer(time.Until(start.Add(next.At)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			g.missed(left)
			return
		}
		if err := g.step(ctx, next); err != nil {
			g.err = errors.Join(g.err, err)
			return
		}
		g.facts = append(g.facts, fmt.Sprintf("%s: instances for new flows grew from %d to %d at %.2f s after the start of the traffic",
			next.Hop, next.Before, next.After, time.Since(start).Seconds()))
		left = rest
	}
}

// scaleTimeout bounds one change of a hop, which takes milliseconds.
const scaleTimeout = 10 * time.Second

// step lets a hop grow, also when the trial ends at just that moment.
func (g *growth) step(ctx context.Context, s lab.ScaleOut) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scaleTimeout)
	defer cancel()
	return g.scale(ctx, s.Hop, s.After)
}

// soonest takes the step whose moment comes first out of a list.
func soonest(steps []lab.ScaleOut) (first lab.ScaleOut, rest []lab.ScaleOut) {
	at := 0
	for i, s := range steps {
		if s.At < steps[at].At {
			at = i
		}
	}
	rest = append(rest, steps[:at]...)
	return steps[at], append(rest, steps[at+1:]...)
}

func (g *growth) missed(steps []lab.ScaleOut) {
	for _, s := range steps {
		g.facts = append(g.facts, fmt.Sprintf("%s: instances stayed %d: the traffic ended before %v, when they were to grow to %d", s.Hop, s.Before, s.At, s.After))
	}
}

// end stops what has not come yet and returns when nothing runs any more; then
// facts and err say what happened. It may be called again.
func (g *growth) end() {
	g.stop()
	<-g.done
}
