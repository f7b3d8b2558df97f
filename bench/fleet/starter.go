package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
)

// starter begins the tests of all machines of a process, each at its own moment, on one
// thread, which waits as that of a source does. A goroutine for each would measure how long
// the runtime takes to wake thousands that share these CPUs; sources have CPUs of their own.
type starter struct {
	mu      sync.Mutex
	waiting []start       // the next first
	more    chan struct{} // somebody waits who did not; has room for one
}

// start is one machine's: begun tells it when it did.
type start struct {
	at    time.Time
	begun chan<- time.Time
}

// soon is so shortly before a moment that the thread is prepared for it.
const soon = 25 * time.Millisecond

func newStarter() *starter { return &starter{more: make(chan struct{}, 1)} }

// begin waits until a moment, and returns when the test began.
func (s *starter) begin(ctx context.Context, at time.Time) (time.Time, error) {
	begun := make(chan time.Time, 1)
	s.mu.Lock()
	i, _ := slices.BinarySearchFunc(s.waiting, at, func(w start, at time.Time) int { return w.at.Compare(at) })
	s.waiting = slices.Insert(s.waiting, i, start{at, begun})
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	select {
	case t := <-begun:
		return t, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// run begins tests until ctx ends.
func (s *starter) run(ctx context.Context) {
	for {
		var due <-chan time.Time
		first, any := s.next()
		if any {
			left := time.Until(first) - soon
			if left <= 0 {
				if err := s.beginNext(ctx, first); err != nil {
					return
				}
				continue
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-s.more:
		case <-ctx.Done():
			return
		}
	}
}

// beginNext begins what is to begin at a moment, and soon after it.
func (s *starter) beginNext(ctx context.Context, first time.Time) error {
	begun, err := session.Request{Prepared: func(context.Context) (time.Time, error) { return first, nil }}.AwaitCommonStart(ctx)
	if err != nil {
		return err
	}
	defer begun()
	// Nobody is told before all began: waking one takes longer than to begin the next.
	var told []func()
	defer func() {
		for _, tell := range told {
			tell()
		}
	}()
	for {
		at, any := s.next()
		now := time.Now()
		switch {
		case !any || at.Sub(now) > soon:
			return nil
		case at.After(now): // as a source, it keeps the CPU
			continue
		}
		s.mu.Lock()
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		told = append(told, func() { next.begun <- now })
	}
}

// next is when the next test is to begin, if any is.
func (s *starter) next() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return time.Time{}, false
	}
	return s.waiting[0].at, true
}
