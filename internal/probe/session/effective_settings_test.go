package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestRangeOf(t *testing.T) {
	for _, c := range [][3]string{{"5", "5", "5"}, {"5", "9", "5..9"}, {"5..9", "2", "2..9"}, {"cubic", "bbr", "cubic, bbr"}, {"cubic, bbr", "bbr", "cubic, bbr"}} {
		if got := rangeOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s and %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// Thousands of flows that each say something else take no more than one.
func TestFlowsThatAllSayMore(t *testing.T) {
	out := measurement.Outcome{Effective: map[string]string{}}
	var facts []string
	for i := range 10_000 {
		effective := map[string]string{"everywhere": fmt.Sprint(strings.Repeat("x", 150), i)}
		for k := range 20 {
			effective[fmt.Sprint("setting ", i, k)] = "on"
			facts = AppendNew(facts, fmt.Sprint("fact ", i, k))
		}
		AddEffective(&out, effective)
	}
	if len(facts) > mostFacts || len(out.Effective) > mostEffective || len(out.Effective["everywhere"]) > longestEffective+3 {
		t.Errorf("%d facts, %d settings, one of %d bytes", len(facts), len(out.Effective), len(out.Effective["everywhere"]))
	}
}

// A round trip is told of for a second; nobody answers after that.
func TestRTTProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest time.Duration
		var got []measurement.Seconds
		report := RTTProgress(time.Now(), func() time.Duration { return newest }, func(p measurement.Progress) { got = append(got, p.RTT) })
		for i := range 12 {
			time.Sleep(200 * time.Millisecond)
			if newest = 0; i == 1 || i == 3 {
				newest = time.Duration(i) * time.Millisecond
			}
			report()
		}
		want := []measurement.Seconds{0, 1e-3, 1e-3, 3e-3, 3e-3, 3e-3, 3e-3, 3e-3, 0, 0, 0, 0}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
