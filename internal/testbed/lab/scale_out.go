package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// growth scales the hops of a path out in the middle of a trial.
type growth struct {
	scale   func(ctx context.Context, hop string, instances int) error
	steps   []lab.ScaleOut
	started chan time.Time // when the trial's traffic did
	stop    context.CancelFunc
	running sync.WaitGroup // until facts and err are complete
	facts   []string
	err     error
}

// shrink brings the hops of a path back to the instances that a trial begins
// with.
func shrink(ctx context.Context, steps []lab.ScaleOut, scale func(ctx context.Context, hop string, instances int) error) error {
	for _, s := range steps {
		if err := scale(ctx, s.Hop, s.Before); err != nil {
			return err
		}
	}
	return nil
}

// grow has hops grow when their moments of the trial come.
func grow(ctx context.Context, steps []lab.ScaleOut, scale func(ctx context.Context, hop string, instances int) error) *growth {
	g := &growth{scale: scale, steps: steps, started: make(chan time.Time, 1)}
	ctx, g.stop = context.WithCancel(ctx)
	g.running.Go(func() { g.run(ctx) })
	return g
}

// Progress learns when the traffic started.
func (g *growth) Progress(p measurement.Progress) {
	select {
	case g.started <- time.Now().Add(-p.Elapsed.Duration()):
	default: // known
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
	steps := slices.SortedStableFunc(slices.Values(g.steps), func(a, b lab.ScaleOut) int { return cmp.Compare(a.At, b.At) })
	for i, next := range steps {
		select {
		case <-time.After(time.Until(start.Add(next.At))):
		case <-ctx.Done():
			g.missed(steps[i:])
			return
		}
		if err := g.step(ctx, next); err != nil {
			g.err = errors.Join(g.err, err)
			return
		}
		g.facts = append(g.facts, fmt.Sprintf("%s: instances for new flows grew from %d to %d at %.2f s after the start of the traffic",
			next.Hop, next.Before, next.After, time.Since(start).Seconds()))
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

func (g *growth) missed(steps []lab.ScaleOut) {
	for _, s := range steps {
		g.facts = append(g.facts, fmt.Sprintf("%s: instances stayed %d: the traffic ended before %v, when they were to grow to %d", s.Hop, s.Before, s.At, s.After))
	}
}

// end stops what has not come yet and returns when nothing runs any more; then
// facts and err say what happened.
func (g *growth) end() {
	g.stop()
	g.running.Wait()
}
