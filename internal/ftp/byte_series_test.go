package ftp

import (
	"math/rand/v2"
	"testing"
	"time"
)

// However many bins are joined, no byte is lost and none moves by more than a bin.
func TestSeriesKeepsEveryByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all, want := make([]*series, 3), 0.0
	var last time.Duration
	for i := range all {
		all[i] = &series{}
		at := time.Duration(0)
		for range 2000 * (i + 1) {
			at += time.Duration(random.Int64N(int64(200 * time.Millisecond)))
			n := random.IntN(1 << 20)
			all[i].add(at, n)
			want += float64(n)
		}
		last = max(last, at)
	}
	total := sum(all...)
	got := 0.0
	for _, n := range total.Bytes {
		got += n
	}
	if got != want {
		t.Errorf("%v bytes of %v", got, want)
	}
	if len(total.Bytes) > maxBins {
		t.Errorf("%d bins", len(total.Bytes))
	}
	if end := total.Width.Duration() * time.Duration(len(total.Bytes)); end <= last || end > last+total.Width.Duration() {
		t.Errorf("the series ends at %v, the transfer at %v", end, last)
	}
}

func TestSeriesOfNothing(t *testing.T) {
	if b := sum(&series{}, &series{}); len(b.Bytes) != 0 || b.Width <= 0 {
		t.Errorf("%+v", b)
	}
}
