package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// What did not run is known for as long as it matters, whether or not its own timer has told
// already; a clock that goes on, and a short wait, are no standstill.
func TestStandstills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := WatchStandstills()
		defer s.Close()
		began, suspended := time.Now(), time.Duration(0)
		s.mu.Lock()
		s.now = func() time.Duration { return time.Since(began) + suspended }
		s.looked = 0
		s.mu.Unlock()
		suspend := func(d time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			suspended += d
		}
		check := func(what string, past, least, most time.Duration) {
			t.Helper()
			if got := s.Longest(past); got < least || got > most {
				t.Errorf("%s: %v, want %v to %v", what, got, least, most)
			}
		}
		time.Sleep(time.Minute)
		check("runs", time.Hour, 0, 0)
		suspend(leastStandstill / 2)
		check("waits for a CPU", time.Hour, 0, 0)
		suspend(8 * time.Second)
		check("wakes", 20*time.Second, 8*time.Second, 8*time.Second+lookEvery)
		check("wakes from what began before", 6*time.Second, 6*time.Second, 6*time.Second)
		time.Sleep(10 * time.Second)
		check("went on", 20*time.Second, 8*time.Second, 8*time.Second+lookEvery)
		check("was over before", 10*time.Second, 0, 0)
	})
}
