package clock

import (
	"sync"
	"time"
)

const (
	// lookEvery is how often a process looks whether it runs.
	lookEvery = 500 * time.Millisecond
	// leastStandstill is the time between two looks from which on it did not run meanwhile:
	// on a busy machine a thread waits less for a CPU. No test fails by silence in less.
	leastStandstill = 3 * time.Second
	// mostStandstills is how many are known, the latest.
	mostStandstills = 16
)

// Standstills are the times in which this process did not run: it was stopped (SIGSTOP), or
// its machine was paused or suspended. Deadlines pass meanwhile, its own and those that others
// have for it.
type Standstills struct {
	now   func() time.Duration // goes on while the machine is suspended, where the system tells
	ended chan struct{}
	looks sync.WaitGroup

	mu     sync.Mutex
	looked time.Duration
	all    []standstill
}

type standstill struct{ from, to time.Duration }

// WatchStandstills looks for them until Close.
func WatchStandstills() *Standstills {
	s := &Standstills{now: sinceBoot(), ended: make(chan struct{})}
	s.looked = s.now()
	s.looks.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.look()
			case <-s.ended:
				return
			}
		}
	})
	return s
}

// Close ends the looking.
func (s *Standstills) Close() {
	close(s.ended)
	s.looks.Wait()
}

// look notes a standstill since the last look, and returns the time.
func (s *Standstills) look() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now-s.looked >= leastStandstill {
		s.all = append(s.all, standstill{s.looked, now})
		s.all = s.all[max(0, len(s.all)-mostStandstills):]
	}
	s.looked = now
	return now
}

// Longest is the longest standstill in so much past, 0 without one; it may be too long by
// the time from one look to the next.
func (s *Standstills) Longest(past time.Duration) (longest time.Duration) {
	since := s.look() - past
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		longest = max(longest, one.to-max(one.from, since))
	}
	if longest < leastStandstill {
		return 0
	}
	return longest
}
