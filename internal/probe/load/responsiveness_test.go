package load

import (
	"math"
	"testing"
	"time"
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
		rtts []time.Duration
		want float64
	}{
		{nil, 0},
		{ms(20), 3000},
		{ms(0), 0},
		{ms(hundred...), 6000},
		{ms(slow...), 6000},
		{ms(30, 10), 6000}, // the slower of two is beyond the 95th percentile
	} {
		if got := responsiveness(c.rtts); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%d round trips: %v per minute, want %v", len(c.rtts), got, c.want)
		}
	}
}
