package quantity

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestParseQuantities(t *testing.T) {
	rate := func(s string) (float64, error) { return ParseRate(s) }
	duration := func(s string) (float64, error) { d, err := ParseDuration(s); return float64(d), err }
	size := func(s string) (float64, error) { n, err := ParseBytes(s); return float64(n), err }
	share := func(s string) (float64, error) { return ParseFraction(s) }
	perByte := func(s string) (float64, error) { return ParseValue(measurement.SecondsPerByte, s) }
	perPacket := func(s string) (float64, error) { return ParseValue(measurement.SecondsPerPacket, s) }
	tests := []struct {
		parse func(string) (float64, error)
		text  string
		want  float64
	}{
		{rate, "1.2Gbit", 1.2e9}, {rate, "500Mbit", 500e6}, {rate, "10kbit", 10e3}, {rate, "100bit", 100},
		{rate, "12.5Gbit/s", 12.5e9}, {rate, "1Tbit", 1e12}, {rate, "0bit", 0}, {rate, "0.1kbit", 100},
		{duration, "850us", 850e3}, {duration, "850µs", 850e3}, {duration, "850μs", 850e3}, {duration, "0.74ms", 740e3},
		{duration, "1s", 1e9}, {duration, "2m", 120e9}, {duration, "1m30s", 90e9}, {duration, "1h", 3600e9}, {duration, "3ns", 3},
		{duration, "1.128ms", 1128e3}, {duration, "0.000000001s", 1}, {duration, "0s", 0}, {duration, "1.5m", 90e9},
		{size, "64kB", 64e3}, {size, "1.33MB", 1.33e6}, {size, "128KiB", 131072}, {size, "1500B", 1500},
		{size, "1GiB", 1 << 30}, {size, "0B", 0}, {size, "1.5KiB", 1536}, {size, "1000TB", 1e15},
		{share, "1%", 0.01}, {share, "0.01", 0.01}, {share, "0.1%", 0.001}, {share, "0", 0}, {share, "1", 1}, {share, "100%", 1},
		{ParseScale, "1:10", 10}, {ParseScale, "1:1", 1}, {ParseScale, "1:2.5", 2.5}, {ParseScale, "1:10000", 10000},
		{parseNumber, "2694", 2694}, {parseNumber, "0.5", 0.5},
		{perByte, "0.45ns/B", 0.45e-9}, {perByte, "450ps/B", 0.45e-9}, {perByte, "0us/B", 0}, {perPacket, "1.2us/packet", 1.2e-6}, {perPacket, "1µs/packet", 1e-6},
	}
	for _, test := range tests {
		got, err := test.parse(test.text)
		if err != nil || got != test.want {
			t.Errorf("%q reads as %v, %v; want %v", test.text, got, err, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	rate := func(s string) error { _, err := ParseRate(s); return err }
	duration := func(s string) error { _, err := ParseDuration(s); return err }
	size := func(s string) error { _, err := ParseBytes(s); return err }
	share := func(s string) error { _, err := ParseFraction(s); return err }
	scale := func(s string) error { _, err := ParseScale(s); return err }
	number := func(s string) error { _, err := parseNumber(s); return err }
	perByte := func(s string) error { _, err := ParseValue(measurement.SecondsPerByte, s); return err }
	perPacket := func(s string) error { _, err := ParseValue(measurement.SecondsPerPacket, s); return err }
	tests := []struct {
		parse func(string) error
		text  string
		want  string // within the error
	}{
		{rate, "1 GB", "has a space in it; rates count bits, so write 8Gbit"}, {rate, "100 mbit", "has a space in it; write 100Mbit"},
		{duration, "10 sec", "has a space in it; write 10s"}, {size, "64 K", "has a space in it; write 64kB"}, {size, "64 kB", "has a space in it; write 64kB"},
		{rate, "1.2Gbps", `unknown unit "Gbps" in rate "1.2Gbps"; write 1.2Gbit`},
		{rate, "1Gb/s", "write 1Gbit"}, {rate, "1gbit", "write 1Gbit"}, {rate, "1Kbit", "write 1kbit"}, {rate, "5bps", "write 5bit"},
		{rate, "3M", "write 3Mbit"}, {rate, "1mbits", "write 1Mbit"}, {rate, "1.5GB/s", "rates count bits, so write 12Gbit"},
		{rate, "100MiB/s", "rates count bits, so write 838.8608Mbit"}, {rate, "1KiB", "rates count bits, so write 8.192kbit"},
		{rate, "1MBps", "write 8Mbit"}, {rate, "9parsecs", "write bit, kbit"},
		{rate, "", "does not start with a number"}, {rate, "fast", "does not start with a number"}, {rate, "-1Gbit", "negative"},
		{rate, "1", "has no unit"}, {rate, "1 Gbit", "write 1Gbit"}, {rate, "1..2Gbit", "does not start"}, {rate, ".5Gbit", "does not start"},
		{rate, "5.Gbit", "does not start"}, {rate, "1e9bit", "unknown unit"}, {rate, "11Tbit", "at most 1Tbit"}, {rate, "+1Gbit", "does not start"},
		{rate, strings.Repeat("9", 41) + "bit", "too long"}, {rate, "1Gbit/min", "unknown unit"},
		{duration, "5", "has no unit"}, {duration, "5sec", "write 5s"}, {duration, "5MS", "write 5ms"}, {duration, "5d", "write ns, us"},
		{duration, "1m30", "has no unit"}, {duration, "1m 30s", "unknown unit"}, {duration, "0.1ns", "finer than a nanosecond"},
		{duration, "49h", "at most 48h"}, {duration, "-1s", "negative"}, {duration, "1:30", "unknown unit"},
		{size, "64KB", "write 64kB"}, {size, "1mb", "write 1MB"}, {size, "2kib", "write 2KiB"}, {size, "9 bytes", "write 9B"},
		{size, "9bytes", "write 9B"}, {size, "1.5B", "whole number of bytes"}, {size, "1001TB", "at most 1000TB"}, {size, "64k", "write 64kB"},
		{size, "3furlongs", "write B, kB"},
		{share, "101%", "more than the whole"}, {share, "2", "more than the whole"}, {share, "-1%", "negative"}, {share, "1pc", "write 1% or 0.01"},
		{share, "", "does not start"}, {share, strings.Repeat("1", 50), "too long"},
		{scale, "10", "1:N"}, {scale, "10:1", "1:N"}, {scale, "1:0.5", "from 1:1"}, {scale, "1:-2", "1:N"}, {scale, "1:", "1:N"},
		{scale, "1:1e3", "1:N"}, {scale, "1:99999", "from 1:1"},
		{perByte, "0.45ns", "write it as in 0.45ns/B"}, {perByte, "0.45ns/packet", "write it as in 0.45ns/B"}, {perByte, "1/B", "write ps, ns"},
		{perPacket, "1.2ns/B", "write it as in 0.45ns/packet"}, {perPacket, "-1ns/packet", "negative"}, {perPacket, "2fs/packet", "write ps, ns"},
		{number, "1s", "not a plain number"}, {number, "-1", "not a plain number"}, {number, "NaN", "not a plain number"}, {number, "1e5", "not a plain number"},
	}
	for _, test := range tests {
		err := test.parse(test.text)
		var unit *UnitError
		if !errors.As(err, &unit) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q gives %v; want a UnitError with %q", test.text, err, test.want)
		}
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		FormatRate(1.2e9): "1.2Gbit", FormatRate(100): "100bit", FormatRate(0): "0bit", FormatRate(12.5e12): "12.5Tbit",
		FormatRate(0.5): "0.5bit", FormatRate(999): "999bit", FormatRate(1e3): "1kbit", FormatRate(1234567): "1.234567Mbit",
		FormatDuration(850 * time.Microsecond):          "850us",
		FormatDuration(1128 * time.Microsecond):         "1.128ms",
		FormatDuration(0):                               "0s",
		FormatDuration(90 * time.Second):                "90s",
		FormatDuration(2 * time.Minute):                 "2m",
		FormatDuration(48 * time.Hour):                  "48h",
		FormatDuration(1500 * time.Millisecond):         "1.5s",
		FormatBytes(1330000):                            "1.33MB",
		FormatBytes(131072):                             "128KiB",
		FormatBytes(0):                                  "0B",
		FormatBytes(1500):                               "1.5kB",
		FormatFraction(0.01):                            "1%",
		FormatFraction(0.001):                           "0.1%",
		FormatFraction(1):                               "100%",
		FormatScale(10):                                 "1:10",
		FormatFraction(math.SmallestNonzeroFloat64)[:4]: "0.00",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What a formatter writes, its parser reads as the very same value.
func TestFormatParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := float64(rapid.Int64Range(0, MaxRateBitsPerSecond*100).Draw(t, "rate")) / 100
		if got, err := ParseRate(FormatRate(rate)); err != nil || got != rate {
			t.Fatalf("rate %v is written %q and reads %v, %v", rate, FormatRate(rate), got, err)
		}
		d := time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "duration"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("time %v is written %q and reads %v, %v", d, FormatDuration(d), got, err)
		}
		if got, err := time.ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("time %v is written %q, which package time reads as %v, %v", d, FormatDuration(d), got, err)
		}
		n := rapid.Int64Range(0, MaxBytes).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "binary") {
			n = n >> 20 << 10
		}
		if got, err := ParseBytes(FormatBytes(n)); err != nil || got != n {
			t.Fatalf("size %v is written %q and reads %v, %v", n, FormatBytes(n), got, err)
		}
		share := float64(rapid.Int64Range(0, 1e9).Draw(t, "share")) / 1e9
		if got, err := ParseFraction(FormatFraction(share)); err != nil || got != share {
			t.Fatalf("fraction %v is written %q and reads %v, %v", share, FormatFraction(share), got, err)
		}
		scale := float64(rapid.Int64Range(10, 100_000).Draw(t, "scale")) / 10
		if got, err := ParseScale(FormatScale(scale)); err != nil || got != scale {
			t.Fatalf("scale %v is written %q and reads %v, %v", scale, FormatScale(scale), got, err)
		}
	})
}

// A time that both read means the same here as in package time.
func TestDurationAgreesWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([0-9]{1,4}(\.[0-9]{1,4})?(ns|us|µs|ms|s|m|h)){1,3}`).Draw(t, "text")
		ours, err := ParseDuration(text)
		if err != nil {
			return // finer than a nanosecond, or too long
		}
		theirs, err := time.ParseDuration(text)
		// Package time cuts each part to whole nanoseconds, "0.3ns0.0007us" to none.
		cut := time.Duration(0)
		for _, part := range regexp.MustCompile(`[0-9.]+[^0-9.]+`).FindAllString(text, -1) {
			if _, err := ParseDuration(part); err != nil {
				cut = 2
			}
		}
		if err != nil || theirs > ours || theirs < ours-cut {
			t.Fatalf("%q is %v here and %v, %v in package time", text, ours, theirs, err)
		}
	})
}

func FuzzQuantities(f *testing.F) {
	for _, seed := range []string{"1.2Gbit", "850us", "1m30s", "128KiB", "1%", "0.01", "1:10", "1 Gbit", "9µs", "1GB/s", "-1", "1e9", "..", "k", "0.0000000000000000001Tbit"} {
		f.Add(seed)
	}
	units := []measurement.Unit{measurement.BitsPerSecond, measurement.SecondsUnit, measurement.Bytes, measurement.Fraction, measurement.Count,
		measurement.SecondsPerByte, measurement.SecondsPerPacket}
	f.Fuzz(func(t *testing.T, text string) {
		for _, unit := range units {
			if v, err := ParseValue(unit, text); err == nil && (v < 0 || math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Errorf("%q reads as %v in %s", text, v, unit)
			}
		}
		if rate, err := ParseRate(text); err == nil {
			if again, err := ParseRate(FormatRate(rate)); rate >= 1e-9 && (err != nil || again != rate) {
				t.Errorf("rate %q reads %v, is written %q and reads %v, %v", text, rate, FormatRate(rate), again, err)
			}
		}
		if scale, err := ParseScale(text); err == nil && scale < 1 {
			t.Errorf("scale %q reads as %v", text, scale)
		}
	})
}
