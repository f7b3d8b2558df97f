package survey

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// limited is a path on which one flow is limited by its window, or loses what does not
// explain its rate.
func limited(window bool) path {
	return func(test result.TestInfo) Step {
		s := perFlow(1e9, 1e9)(test)
		end := measurement.TCPInfo{At: 2, Busy: 2, MSS: 1448, Retransmits: 1000}
		if window {
			end.ReceiveWindowTime, end.Retransmits = 2, 0
		}
		s.Trial.Path, s.Trial.Test = "path", test.Name
		s.Trial.Flows = []measurement.Flow{{Info: []measurement.TCPInfo{{At: 0.1}, end}, Final: &end}}
		return s
	}
}

// One flow whose limit cannot be told is tried again a tenth slower, and is not rated so.
func TestProfileExplains(t *testing.T) {
	slower := func(done []Step) (result.TestInfo, bool) {
		i := slices.IndexFunc(done, func(s Step) bool { return s.Test.Explains != "" })
		if i < 0 {
			return result.TestInfo{}, false
		}
		return done[i].Test, true
	}
	done := take(t, Options{}, limited(false))
	test, ok := slower(done)
	if !ok || test.Explains != "flows-1" || test.Spec.PacingBitsPerSecond != 0.9e9 || test.Spec.Flows != 1 {
		t.Errorf("tried %+v", test)
	}
	if slices.ContainsFunc(Ratings(0, done), func(r result.RFC6349) bool { return r.Test == test.Name }) {
		t.Error("the test that explains is rated")
	}
	if test, ok := slower(take(t, Options{}, limited(true))); ok {
		t.Errorf("a window that explains the rate is tried again as %+v", test)
	}
}
