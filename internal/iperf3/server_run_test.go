package iperf3

import (
	"strings"
	"testing"
	"time"
)

// The rate of a test is what moved in the time that passed, however late a look comes.
func TestRateOfATest(t *testing.T) {
	even := func(bytes int64) func(int) (time.Duration, int64) {
		return func(int) (time.Duration, int64) { return time.Second, bytes }
	}
	// stands is a server that looks at nothing for a while, and then sees what had come.
	stands := func(pause time.Duration, then int64) func(int) (time.Duration, int64) {
		return func(look int) (time.Duration, int64) {
			switch look {
			case 10:
				return pause, 0
			case 11:
				return time.Second, then
			}
			return time.Second, 1e6
		}
	}
	for _, c := range []struct {
		name  string
		limit float64 // in bit/s
		// since is how long after the look before one comes, and moved what came since.
		since func(look int) (after time.Duration, moved int64)
		want  string
	}{
		{"as fast as may be", 8e6, even(1e6), ""},
		{"too fast", 8e6, even(2e6), "16000000 bit/s over 2s, this server allows 8000000"},
		{"looks that come late", 8e6, func(int) (time.Duration, int64) { return 1500 * time.Millisecond, 1.5e6 }, ""},
		{"whole blocks at a low rate", 300e3, func(look int) (time.Duration, int64) {
			blocks := func(seconds int) int64 { return int64(float64(seconds) * 300e3 / 8 / defaultBlock) }
			return time.Second, defaultBlock * (blocks(look+1) - blocks(look))
		}, ""},
		{"too many blocks", 300e3, even(128 << 10), "1048576 bit/s over 2s, this server allows 300000"},
		{"the server stands still for a moment", 8e6, stands(1900*time.Millisecond, 2.9e6), ""},
		{"too fast, with looks that come late", 8e6, func(int) (time.Duration, int64) { return 1500 * time.Millisecond, 3e6 }, "this server allows 8000000"},
		{"the server stands still, and reads what buffers held", 8e6, stands(10*time.Second, 6e6), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watch{session: &session{server: &Server{opts: Options{MaxRate: c.limit}}, params: params{Len: defaultBlock, Parallel: 1}}}
			var at time.Duration
			var all int64
			for i := range 60 {
				after, moved := c.since(i)
				at, all = at+after, all+moved
				if err := w.compare(at, all); err != nil {
					if c.want == "" || !strings.Contains(err.Error(), c.want) {
						t.Errorf("at look %d: %v, want %q", i, err, c.want)
					}
					return
				}
			}
			if c.want != "" {
				t.Errorf("it goes on, want %q", c.want)
			}
		})
	}
}
