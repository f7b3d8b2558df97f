package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/experiment"
)

func TestValues(t *testing.T) {
	seconds := func(v pflag.Value) any { return time.Duration(*v.(*secondsValue)) }
	rate := func(v pflag.Value) any { return float64(*v.(*rateValue)) }
	size := func(v pflag.Value) any { return int64(*v.(*sizeValue)) }
	share := func(v pflag.Value) any { return float64(*v.(*fractionValue)) }
	switched := func(v pflag.Value) any { return string(*v.(*switchValue)) }
	dscp := func(v pflag.Value) any { return int(*v.(*dscpValue)) }
	tos := func(v pflag.Value) any { return int(*v.(tosValue).dscp) }
	for _, c := range []struct {
		value pflag.Value
		read  func(pflag.Value) any
		text  string
		want  any // nil is an error
	}{
		{new(secondsValue), seconds, "10", 10 * time.Second},
		{new(secondsValue), seconds, "0.25", 250 * time.Millisecond},
		{new(secondsValue), seconds, "300ms", 300 * time.Millisecond},
		{new(secondsValue), seconds, "1m30s", 90 * time.Second},
		{new(secondsValue), seconds, "-1", nil},
		{new(secondsValue), seconds, "NaN", nil},
		{new(secondsValue), seconds, "1e99", nil},
		{new(secondsValue), seconds, "soon", nil},
		{new(rateValue), rate, "1G", 1e9},
		{new(rateValue), rate, "2.5m", 2.5e6},
		{new(rateValue), rate, "100k", 1e5},
		{new(rateValue), rate, "0", 0.0},
		{new(rateValue), rate, "1Gbit", 1e9},
		{new(rateValue), rate, "1Gbit/s", 1e9},
		{new(rateValue), rate, "1G/100", nil},
		{new(rateValue), rate, "2T", nil},
		{new(rateValue), rate, "-1G", nil},
		{new(rateValue), rate, "", nil},
		{new(rateValue), rate, "G", nil},
		{new(rateValue), rate, "1GB", nil},
		{new(sizeValue), size, "1400", int64(1400)},
		{new(sizeValue), size, "64K", int64(65536)},
		{new(sizeValue), size, "64kB", int64(64000)},
		{new(sizeValue), size, "1.33MB", int64(1330000)},
		{new(sizeValue), size, "0.3", nil},
		{new(sizeValue), size, "99999999T", nil},
		{new(fractionValue), share, "1%", 0.01},
		{new(fractionValue), share, "0.5", 0.5},
		{new(fractionValue), share, "2", nil},
		{new(switchValue), switched, "on", "on"},
		{new(switchValue), switched, "off", "off"},
		{new(switchValue), switched, "auto", ""},
		{new(switchValue), switched, "maybe", nil},
		{new(dscpValue), dscp, "46", 46},
		{new(dscpValue), dscp, "0x2e", 46},
		{new(dscpValue), dscp, "ef", 46},
		{new(dscpValue), dscp, "AF11", 10}, // RFC 2597, section 6
		{new(dscpValue), dscp, "AF43", 38}, // likewise
		{new(dscpValue), dscp, "CS6", 48},  // RFC 2474, section 4.2.2
		{new(dscpValue), dscp, "LE", 1},    // RFC 8622, section 1
		{new(dscpValue), dscp, "64", nil},
		{new(dscpValue), dscp, "AF44", nil},
		{tosValue{new(dscpValue)}, tos, "0xb8", 46},
		{tosValue{new(dscpValue)}, tos, "184", 46},
		{tosValue{new(dscpValue)}, tos, "1", nil},
		{tosValue{new(dscpValue)}, tos, "256", nil},
	} {
		err := c.value.Set(c.text)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%s %q: %v", c.value.Type(), c.text, err)
		} else if err == nil && c.read(c.value) != c.want {
			t.Errorf("%s %q is %v, want %v", c.value.Type(), c.text, c.read(c.value), c.want)
		}
	}
}

// What a value prints of itself (a default in a help text) reads back as itself.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{"1", "1.5G", "64K", "300ms", "1%", "EF", "0xb8", "on", "1e400", "۱", "1G1", "-0", "0.0000000000000000001T"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.TrimSpace(text) != text {
			return
		}
		var seconds secondsValue
		if seconds.Set(text) == nil && (seconds < 0 || time.Duration(seconds) > experiment.MaxDuration) {
			t.Errorf("%q is a time of %v", text, time.Duration(seconds))
		}
		var rate rateValue
		if rate.Set(text) == nil && !(rate >= 0 && rate <= experiment.MaxRateBitsPerSecond) {
			t.Errorf("%q is a rate of %v", text, float64(rate))
		}
		var size, again sizeValue
		if size.Set(text) == nil {
			if !(size >= 0 && size <= experiment.MaxBytes) {
				t.Errorf("%q is a size of %d", text, size)
			}
			if printed := size.String(); printed != "" && (again.Set(printed) != nil || again != size) {
				t.Errorf("%q prints as %q, which is %d", text, printed, again)
			}
		}
		var share fractionValue
		if share.Set(text) == nil && !(share >= 0 && share <= 1) {
			t.Errorf("%q is a share of %v", text, float64(share))
		}
		var point dscpValue
		if point.Set(text) == nil && (point < 0 || point > 63) {
			t.Errorf("%q is code point %d", text, point)
		}
		byTOS := tosValue{&point}
		if byTOS.Set(text) == nil && (point < 0 || point > 63) {
			t.Errorf("%q is code point %d", text, point)
		}
	})
}
