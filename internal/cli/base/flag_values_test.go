package base

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/quantity"
)

// A 0 that would be taken for the default is refused; others are iperf3's word for none.
func TestZeroIsNotTheDefault(t *testing.T) {
	refused := map[string]string{"duration": "10ms", "omit": "1ns", "timeout": "1ms", "count": "1", "file": "1B"}
	for _, f := range kind.Flags() {
		v := OptionValue{Flag: f}
		err := v.Set("0")
		if least := refused[f.Name]; least != "" && (err == nil || err.Error() != "write "+least+" or more, or leave it out") {
			t.Errorf("--%s 0: got %v, want %s", f.Name, err, least)
		}
		if slices.Contains([]string{"bitrate", "window", "interval", "dscp"}, f.Name) && err != nil {
			t.Errorf("--%s 0: %v", f.Name, err)
		}
	}
}

// read reads a value as a flag of the type does.
func read(t kind.Type, text string) (any, error) {
	v := OptionValue{Flag: kind.Flag{Type: t, Words: []string{"on", "off"}}}
	err := v.Set(text)
	return v.Value, err
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		typ  kind.Type
		text string
		want any // nil is an error
	}{
		{kind.Time, "10", 10.0},
		{kind.Time, "0.25", 0.25},
		{kind.Time, "1.001", 1.001},
		{kind.Time, "300ms", 0.3},
		{kind.Time, "1m30s", 90.0},
		{kind.Time, "-1", nil},
		{kind.Time, "NaN", nil},
		{kind.Time, "1e99", nil},
		{kind.Time, "soon", nil},
		{kind.Rate, "1G", 1e9},
		{kind.Rate, "2.5m", 2.5e6},
		{kind.Rate, "100k", 1e5},
		{kind.Rate, "0", 0.0},
		{kind.Rate, "1Gbit", 1e9},
		{kind.Rate, "1Gbit/s", 1e9},
		{kind.Rate, "1G/100", nil},
		{kind.Rate, "2T", nil},
		{kind.Rate, "-1G", nil},
		{kind.Rate, "", nil},
		{kind.Rate, "G", nil},
		{kind.Rate, "1GB", nil},
		{kind.Size, "1400", 1400.0},
		{kind.Size, "64K", 65536.0},
		{kind.Size, "64kB", 64000.0},
		{kind.Size, "1.33MB", 1330000.0},
		{kind.Size, "0.3", nil},
		{kind.Size, "99999999T", nil},
		{kind.Share, "1%", 0.01},
		{kind.Share, "0.5", 0.5},
		{kind.Share, "2", nil},
		{kind.DSCP, "46", 46.0},
		{kind.DSCP, "0x2e", 46.0},
		{kind.DSCP, "ef", 46.0},
		{kind.DSCP, "AF11", 10.0}, // RFC 2597, section 6
		{kind.DSCP, "AF43", 38.0}, // likewise
		{kind.DSCP, "CS6", 48.0},  // RFC 2474, section 4.2.2
		{kind.DSCP, "LE", 1.0},    // RFC 8622, section 1
		{kind.DSCP, "64", nil},
		{kind.DSCP, "AF44", nil},
		{kind.TOS, "0xb8", 46.0},
		{kind.TOS, "184", 46.0},
		{kind.TOS, "1", nil},
		{kind.TOS, "256", nil},
		{kind.Word, "on", "on"},
		{kind.Word, "maybe", nil},
		{kind.Whole, "7", 7.0},
		{kind.Whole, "7.5", nil},
		{kind.Number, "0.5", 0.5},
		{kind.Truth, "true", true},
		{kind.Truth, "perhaps", nil},
	} {
		got, err := read(c.typ, c.text)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%v %q: %v", c.typ, c.text, err)
		} else if err == nil && got != c.want {
			t.Errorf("%v %q is %v, want %v", c.typ, c.text, got, c.want)
		}
	}
}

// Of a flag that is given twice the last one holds.
func TestLastValueHolds(t *testing.T) {
	v := OptionValue{Flag: kind.Flag{Type: kind.Truth}}
	for text, want := range map[string]any{"true": true, "false": nil} {
		if err := errors.Join(v.Set("true"), v.Set(text)); err != nil || v.Value != want {
			t.Errorf("true, then %s: %v, %v", text, v.Value, err)
		}
	}
}

// What is read is within the bounds of its type; what a size prints of itself reads
// back as itself.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{"1", "1.5G", "64K", "300ms", "1%", "EF", "0xb8", "on", "1e400", "۱", "1G1", "-0", "0.0000000000000000001T"} {
		f.Add(seed)
	}
	most := map[kind.Type]float64{
		kind.Time: quantity.MaxDuration.Seconds(), kind.Rate: quantity.MaxRateBitsPerSecond, kind.Size: quantity.MaxBytes,
		kind.Share: 1, kind.DSCP: 63, kind.TOS: 63,
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.TrimSpace(text) != text {
			return
		}
		for typ, most := range most {
			if got, err := read(typ, text); err == nil && !(got.(float64) >= 0 && got.(float64) <= most) {
				t.Errorf("%q of type %v is %v", text, typ, got)
			}
		}
	})
}
