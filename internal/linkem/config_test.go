package linkem

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   []string // parts of the error; none means valid
	}{
		"nothing planted": {Config{}, nil},
		"everything": {Config{
			Forward: Direction{Delay: time.Second, Jitter: time.Second, LossFraction: 1, DuplicateFraction: 1, ReorderFraction: 0.5, RateBitsPerSecond: 1e8, QueueBytes: 1},
			MTU:     9000, NoOffload: true, Seed: 1,
		}, nil},
		"negative delay":        {Config{Forward: Direction{Delay: -1}}, []string{"forward: delay is -1ns"}},
		"delay too long":        {Config{Backward: Direction{Delay: time.Hour}}, []string{"backward: delay is 1h0m0s"}},
		"fraction above 1":      {Config{Forward: Direction{LossFraction: 1.1}}, []string{"loss fraction is 1.1"}},
		"fraction not real":     {Config{Forward: Direction{DuplicateFraction: math.NaN()}}, []string{"duplicate fraction is NaN"}},
		"reorder above 0.5":     {Config{Forward: Direction{ReorderFraction: 0.6}}, []string{"reorder fraction is 0.6"}},
		"rate too low":          {Config{Forward: Direction{RateBitsPerSecond: 1}}, []string{"rate is 1"}},
		"rate infinite":         {Config{Forward: Direction{RateBitsPerSecond: math.Inf(1)}}, []string{"rate is +Inf"}},
		"per-flow rate":         {Config{Backward: Direction{PerFlowRateBitsPerSecond: 1e13}}, []string{"backward: per-flow rate is 1e+13"}},
		"queue negative":        {Config{Forward: Direction{QueueBytes: -1}}, []string{"queue is -1"}},
		"mtu":                   {Config{MTU: 1}, []string{"mtu is 1"}},
		"faster than it can be": {Config{Forward: Direction{RateBitsPerSecond: 1e12, Delay: 100 * time.Millisecond}}, nil},
		"both ways alike":       {Config{Forward: Direction{Delay: -1}, Backward: Direction{Delay: -1}}, []string{"forward: delay"}},
		"holds too much":        {Config{Forward: Direction{RateBitsPerSecond: 1e12, Delay: time.Second}}, []string{"would hold"}},
		"all errors at once": {
			Config{Forward: Direction{Delay: -1, LossFraction: -1}, Backward: Direction{Jitter: -1}, MTU: 1},
			[]string{"forward: delay", "forward: loss", "backward: jitter", "mtu"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.config.Validate()
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("error is %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestConfigAsJSON(t *testing.T) {
	want := Config{Forward: Direction{Delay: time.Millisecond, RateBitsPerSecond: 1e9}, Seed: 7, MTU: 1400}
	text, err := json.Marshal(want)
	testutil.OK(t, err)
	const form = `{"forward":{"delay_nanoseconds":1000000,"rate_bits_per_second":1000000000},"backward":{},"seed":7,"mtu":1400}`
	if string(text) != form {
		t.Errorf("encoded as\n%s\nwant\n%s", text, form)
	}
	var got Config
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("decoded as %+v (%v), want %+v", got, err, want)
	}
}

func TestDefaultQueue(t *testing.T) {
	for _, c := range []struct {
		direction Direction
		want      float64
	}{
		{Direction{RateBitsPerSecond: 9600}, 6056},
		{Direction{RateBitsPerSecond: 100e3}, 18750},
		{Direction{RateBitsPerSecond: 1e6}, 131072},
		{Direction{RateBitsPerSecond: 1e9}, 6.25e6},
		{Direction{RateBitsPerSecond: 1e9, QueueBytes: 1500}, 1500},
	} {
		if got := c.direction.queueBytes(); got != c.want {
			t.Errorf("%+v: the queue is %v bytes, want %v", c.direction, got, c.want)
		}
	}
}

// A wire with a delay holds what its rate carries meanwhile, however small the frames are.
func TestMemoryHoldsSmallFrames(t *testing.T) {
	const frame = 106 // 64 bytes of payload in UDP over IPv4
	for _, d := range []Direction{
		{RateBitsPerSecond: 1e8, Delay: 100 * time.Millisecond},
		{RateBitsPerSecond: 5e7, Delay: 300 * time.Millisecond},
		{RateBitsPerSecond: 3e8, Delay: 20 * time.Millisecond, QueueBytes: 1 << 20},
	} {
		l := newLine(d, 1, 0, d.slabChunks())
		slots, lost := d.slabChunks(), 0
		for now := int64(0); now < int64(2*d.Delay); now += int64(math.Ceil(frame / l.rate)) {
			for {
				if _, _, due := l.release(now); !due {
					break
				}
				slots++
			}
			if slots == 0 || !l.offer(now, 0, frame) {
				lost++
				continue
			}
			slots--
		}
		if lost > 0 {
			t.Errorf("%+v lost %d frames that came at its rate", d, lost)
		}
	}
}
