package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestGrowth(t *testing.T) {
	steps := []lab.ScaleOut{
		{Hop: "late", Before: 2, At: 3 * time.Second, After: 4},
		{Hop: "early", Before: 1, At: time.Second, After: 2},
	}
	broken := errors.New("no way")
	for _, test := range []struct {
		name    string
		traffic time.Duration // 0: none came about
		fails   string        // the change that fails
		changes string
		facts   []string
	}{
		{"both", 5 * time.Second, "", "[0s late=2 0s early=1 1s early=2 3s late=4]", []string{
			"early: instances for new flows grew from 1 to 2 at 1.00 s after the start of the traffic",
			"late: instances for new flows grew from 2 to 4 at 3.00 s after the start of the traffic",
		}},
		{"too short", 2 * time.Second, "", "[0s late=2 0s early=1 1s early=2]", []string{
			"early: instances for new flows grew from 1 to 2 at 1.00 s after the start of the traffic",
			"late: instances stayed 2: the traffic ended before 3s, when they were to grow to 4",
		}},
		{"none", 0, "", "[0s late=2 0s early=1]", []string{
			"late: instances stayed 2: the traffic ended before 3s, when they were to grow to 4",
			"early: instances stayed 1: the traffic ended before 1s, when they were to grow to 2",
		}},
		{"fails", 5 * time.Second, "early=2", "[0s late=2 0s early=1 1s early=2]", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var start time.Time // of the traffic
				var changes []string
				scale := func(_ context.Context, hop string, instances int) error {
					what := fmt.Sprintf("%s=%d", hop, instances)
					var at time.Duration
					if !start.IsZero() {
						at = time.Since(start)
					}
					changes = append(changes, fmt.Sprint(at, " ", what))
					if what == test.fails {
						return broken
					}
					return nil
				}
				testutil.OK(t, shrink(t.Context(), steps, scale))
				g := grow(t.Context(), steps, scale)
				time.Sleep(time.Minute) // of connecting
				if test.traffic > 0 {
					start = time.Now()
					for range 3 { // only the first says when it started
						time.Sleep(100 * time.Millisecond)
						g.Progress(measurement.Progress{Elapsed: measurement.SecondsOf(time.Since(start))})
					}
					time.Sleep(test.traffic - 300*time.Millisecond)
				}
				g.end()
				if fmt.Sprint(changes) != test.changes || !slices.Equal(g.facts, test.facts) {
					t.Errorf("changes %v, facts %q\nwant    %s, facts %q", changes, g.facts, test.changes, test.facts)
				}
				if (test.fails != "") != errors.Is(g.err, broken) {
					t.Errorf("error %v", g.err)
				}
			})
		})
	}
}

// A hop that cannot be brought back to what a trial begins with fails the trial.
func TestGrowthThatCannotBegin(t *testing.T) {
	err := shrink(t.Context(), []lab.ScaleOut{{Hop: "fw"}}, func(context.Context, string, int) error { return errors.New("no way") })
	if err == nil || !strings.Contains(err.Error(), "no way") {
		t.Errorf("got %v", err)
	}
}
