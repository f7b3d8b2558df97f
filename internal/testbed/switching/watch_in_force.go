package switching

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// slowRead is the time from which on a read command is too dear to be run while
	// something is measured.
	slowRead = 100 * time.Millisecond
	// watchEvery is the least time between two readings during a trial. A read command
	// takes no more than a share of 1/watchShare of the time.
	watchEvery = time.Second
	watchShare = 100
)

// watch reads values while a trial goes on: a flip that is over at its end is found out
// by nothing else.
type watch struct {
	stop    context.CancelFunc
	reading sync.WaitGroup
	// flipped is why the trial does not count, nil if nothing was seen.
	flipped error
}

// beginWatch watches the values that are read fast until endWatch, or until ctx is over.
func (s *Switcher) beginWatch(ctx context.Context, needs []need) {
	var fast []need
	every := watchEvery
	for _, n := range needs {
		if took := s.readTook[n.Name]; took > 0 && took < slowRead {
			fast = append(fast, n)
			every = max(every, watchShare*took)
		}
	}
	if len(fast) == 0 {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop}
	s.watch = w
	w.reading.Go(func() {
		for sleep(ctx, every) {
			for _, n := range fast {
				limited, cancel := context.WithTimeout(ctx, n.Timeout)
				out, err := s.run(limited, n.Switch, n.value, n.Read)
				cancel()
				// What cannot be read now is read at the end.
				if v := strings.TrimSpace(out); err == nil && v != n.value {
					w.flipped = movedAway(n, v)
					return
				}
			}
		}
	})
}

// endWatch ends watching and says what it saw.
func (s *Switcher) endWatch() error {
	w := s.watch
	if w == nil {
		return nil
	}
	s.watch = nil
	w.stop()
	w.reading.Wait()
	return w.flipped
}
