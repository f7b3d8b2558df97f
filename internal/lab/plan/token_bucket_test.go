package plan

import "testing"

func TestEgressBucket(t *testing.T) {
	for _, test := range []struct {
		bitsPerSecond float64
		mtu           int
		want          TokenBucket
		hop           uint32 // bytes that may wait before a hop's rate
	}{
		{8e3, 1500, TokenBucket{1000, 1518, 1518 + 16<<20}, 6072},
		{8e3, 65521, TokenBucket{1000, 65539, 65539 + 16<<20}, 4 * 65539},
		{1e6, 1500, TokenBucket{125000, 6250, 6250 + 16<<20}, 187500},
		{1e7, 1500, TokenBucket{1250000, 62500, 62500 + 16<<20}, 1875000},
		{1e8, 1500, TokenBucket{12500000, 131584, 131584 + 16<<20}, 16 << 20},
		{1.25e9, 1500, TokenBucket{156250000, 781250, 781250 + 16<<20}, 16 << 20},
		{100e9, 1500, TokenBucket{12500000000, 62500000, 62500000 + 125000000}, 125000000},
	} {
		if got := EgressBucket(test.bitsPerSecond, test.mtu); got != test.want {
			t.Errorf("%g bit/s: got %+v, want %+v", test.bitsPerSecond, got, test.want)
		}
		test.want.LimitBytes = test.want.BurstBytes + test.hop
		if got := HopBucket(test.bitsPerSecond, test.mtu); got != test.want {
			t.Errorf("a hop of %g bit/s: got %+v, want %+v", test.bitsPerSecond, got, test.want)
		}
	}
}
