package tcpinfo

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// What a system does not tell of a connection is a fact of the result.
func TestInfoSamplerSaysWhatIsUnknown(t *testing.T) {
	unknown := Sampler{err: sockets.ErrUnsupported}
	if facts := unknown.Facts(); len(facts) != 1 || !strings.Contains(facts[0], sockets.ErrUnsupported.Error()) {
		t.Errorf("%q", facts)
	}
	ended := Sampler{err: sockets.ErrUnsupported, Final: &measurement.TCPInfo{}}
	if facts := ended.Facts(); facts != nil {
		t.Errorf("%q after a connection that was sampled", facts)
	}
}

// A slow connection has to carry what it reports of itself.
func TestBriefSeries(t *testing.T) {
	for name, c := range map[string]struct {
		sent, again, flying int64 // bytes, in 10 s
		least, most         int   // samples kept of 200
	}{
		"fast":              {1e9, 0, 0, 200, 200},
		"1 Mbit/s":          {125e4, 0, 0, 200, 200},
		"64 kbit/s":         {8e4, 0, 0, 8, 16},
		"mostly sent again": {1e9, 1e9 - 8e4, 0, 8, 16},
		"on the way":        {3e5, 0, 22e4, 8, 16},
		"nothing":           {0, 0, 0, 4, 8},
	} {
		series := make([]measurement.TCPInfo, 200)
		for i := range series {
			share := int64(i + 1)
			series[i] = measurement.TCPInfo{
				At: measurement.Seconds(share) / 20, SentBytes: c.sent * share / 200, RetransmittedBytes: c.again * share / 200, InFlight: c.flying,
			}
		}
		got := Brief(series)
		if n := len(got); n < c.least || n > c.most || got[n-1] != series[199] || series[0].At != 0.05 {
			t.Errorf("%s: %d samples", name, n)
		}
	}
	if got := Brief(nil); len(got) != 0 {
		t.Error(got)
	}
}
