// Package sampling takes samples at steady intervals while something runs, and
// reads between them.
package sampling

import (
	"context"
	"sync"
	"time"
)

// MaxSamples bounds a series; a fuller one is thinned to half.
const MaxSamples = 200

// Sampler calls sample at a steady interval on its own goroutine until it is
// ended, and once more then.
type Sampler struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

// Start begins to sample.
func Start(every time.Duration, sample func()) *Sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sampler{stop: stop}
	s.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			sample()
			select {
			case <-ticker.C:
			case <-ctx.Done():
				sample()
				return
			}
		}
	})
	return s
}

// End takes a last sample and waits for the goroutine. It may be called again.
func (s *Sampler) End() {
	s.stop()
	s.done.Wait()
}

// Thin keeps every second element, the last one always.
func Thin[T any](series []T) []T {
	kept := series[:0]
	for i := range series {
		if (len(series)-1-i)%2 == 0 {
			kept = append(kept, series[i])
		}
	}
	return kept
}

// Interpolate is the value at x of the line through the points (xs, ys), xs
// rising, held constant beyond its ends.
func Interpolate(xs, ys []float64, x float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	for i, at := range xs {
		if at < x {
			continue
		}
		if i == 0 || at == xs[i-1] {
			return ys[i]
		}
		return ys[i-1] + (ys[i]-ys[i-1])*(x-xs[i-1])/(at-xs[i-1])
	}
	return ys[len(ys)-1]
}
