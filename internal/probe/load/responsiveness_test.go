package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

func TestResponsiveness(t *testing.T) {
	ms := func(v ...int) (d []time.Duration) {
		for _, v := range v {
			d = append(d, time.Duration(v)*time.Millisecond)
		}
		return d
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 10
	}
	slow := append([]int{}, hundred...)
	for i := range 5 {
		slow[i*20] = 5000 // the slowest twentieth does not count
	}
	for _, c := range []struct {
		rtts       []time.Duration
		unanswered int
		want       float64
	}{
		{nil, 0, 0},
		{nil, 5, 0},
		{ms(20), 0, 3000},
		{ms(0), 0, 0},
		{ms(hundred...), 0, 6000},
		{ms(hundred...), 5, 6000},
		{ms(hundred...), 7, 0}, // the 95th percentile falls on one of them
		{ms(slow...), 0, 6000},
		{ms(30, 10), 0, 6000}, // the slower of two is beyond the 95th percentile
	} {
		got, ok := responsiveness(c.rtts, c.unanswered)
		if math.Abs(got-c.want) > 1e-6*c.want || ok != (c.want > 0) {
			t.Errorf("%d round trips, %d unanswered: %v per minute, %v, want %v", len(c.rtts), c.unanswered, got, ok, c.want)
		}
	}
}

func TestFactsSayOfWhichRequestsTheyAre(t *testing.T) {
	got := factsOf([]string{"the window was clamped"}, []string{"the cookie is 24 bytes", "26 requests left late"}, []string{"197 requests left late", "the cookie is 24 bytes"})
	want := []string{"the window was clamped", "the cookie is 24 bytes", "26 requests left late (without load)", "197 requests left late"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// On a slow path the requests are a load of their own, which is said.
func TestRequestsThatLoadThePath(t *testing.T) {
	l := &test{req: session.Request{Spec: measurement.Spec{Kind: measurement.Load}.Defaults()}}
	for load, said := range map[float64]bool{1e9: false, 5e6: false, 4e6: true, 5e5: true} {
		if facts := l.heavyRequests(load); (len(facts) > 0) != said {
			t.Errorf("%g bit/s: %q", load, facts)
		}
	}
}
