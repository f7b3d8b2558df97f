package linkem

import (
	"testing"

	"pgregory.net/rapid"
)

// However sleeps end and frames are due, no more time is spent spinning than the
// share allows, plus what may be saved up and one last spin.
func TestSpinStaysWithinItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spin
		now, slept, spun := int64(0), int64(0), int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "frames") {
			due := now + rapid.Int64Range(0, 300_000).Draw(t, "due in")
			for now < due {
				length := s.sleep(now, due)
				if length > due-now {
					t.Fatalf("sleeps %d ns for a frame due in %d", length, due-now)
				}
				if length <= 0 {
					now += 300 // a turn of the loop
					spun += 300
					continue
				}
				until := now + length
				late := rapid.Int64Range(-length/2, 300_000).Draw(t, "late")
				slept += length + late
				now = until + late
				s.woke(now, until)
			}
			s.stop(now)
			now += rapid.Int64Range(0, 1_000_000).Draw(t, "idle")
		}
		if limit := slept/spinShare + maxSpinCredit + 1000; spun > limit {
			t.Fatalf("spun %d ns in %d ns of sleep, more than %d", spun, slept, limit)
		}
	})
}
