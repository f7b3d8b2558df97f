package plan

import "testing"

func TestEgressBucket(t *testing.T) {
	for _, test := range []struct {
		bitsPerSecond float64
		want          TokenBucket
	}{
		{1e6, TokenBucket{125000, 131584, 131584 + 16<<20}},
		{1.25e9, TokenBucket{156250000, 781250, 781250 + 16<<20}},
		{100e9, TokenBucket{12500000000, 62500000, 62500000 + 125000000}},
	} {
		if got := EgressBucket(test.bitsPerSecond); got != test.want {
			t.Errorf("%g bit/s: got %+v, want %+v", test.bitsPerSecond, got, test.want)
		}
	}
}
