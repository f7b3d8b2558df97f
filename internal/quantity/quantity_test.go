package quantity_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  measurement.Unit
		want  string
	}{
		{358e6, measurement.BitsPerSecond, "358 Mbit/s"},
		{999.6e3, measurement.BitsPerSecond, "1.00 Mbit/s"},
		{12.04e9, measurement.BitsPerSecond, "12.0 Gbit/s"},
		{0, measurement.BitsPerSecond, "0 bit/s"},
		{2.2599e-3, measurement.SecondsUnit, "2.26 ms"},
		{53e-6, measurement.SecondsUnit, "53.0 µs"},
		{-1.5, measurement.SecondsUnit, "−1.50 s"},
		{0, measurement.SecondsUnit, "0 ms"},
		{133e3, measurement.Bytes, "133 kB"},
		{1500, measurement.Bytes, "1500 B"},
		{9999, measurement.Bytes, "9999 B"},
		{10_000, measurement.Bytes, "10.0 kB"},
		{0.9994, measurement.Fraction, "99.9 %"},
		{0.9995, measurement.Fraction, "99.95 %"},
		{0.999997, measurement.Fraction, "99.9997 %"},
		{1, measurement.Fraction, "100 %"},
		{0, measurement.Bytes, "0 B"},
		{0.0123, measurement.Fraction, "1.23 %"},
		{2694, measurement.Count, "2694"},
		{0.25, measurement.Count, "0.250"},
		{99_999, measurement.Count, "99999"},
		{100_000, measurement.Count, "100 k"},
		{812_345.6, measurement.Count, "812 k"},
		{-812_345.6, measurement.Count, "−812 k"},
		{999_600, measurement.Count, "1.00 M"},
		{14_880_952, measurement.Count, "14.9 M"},
		{0, measurement.Count, "0"},
		{0.45e-9, measurement.SecondsPerByte, "450 ps/B"},
		{1.5e-9, measurement.SecondsPerByte, "1.50 ns/B"},
		{0, measurement.SecondsPerByte, "0 ps/B"},
		{1.234e-6, measurement.SecondsPerPacket, "1.23 µs/packet"},
		{999.7e-9, measurement.SecondsPerPacket, "1.00 µs/packet"},
		{350e-9, measurement.SecondsPerPacket, "350 ns/packet"},
		{math.NaN(), measurement.Count, "—"},
		{math.Inf(1), measurement.SecondsPerByte, "—"},
		{math.NaN(), measurement.SecondsUnit, "—"},
		{math.Inf(1), measurement.BitsPerSecond, "—"},
	} {
		if got := quantity.Format(test.value, test.unit); got != test.want {
			t.Errorf("Format(%v, %q) = %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

// A prefix never leaves a number of four digits before the point, nor one that
// begins with a zero, except beyond the largest and the smallest prefix.
func TestScaleForKeepsOneToThreeDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(1e-8, 1e14).Draw(t, "v")
		s := quantity.ScaleFor(measurement.BitsPerSecond, v)
		if x := v / s.Factor; v >= 1 && (x < 0.9995 || x >= 999.5 && s.Name != "Tbit/s") {
			t.Fatalf("%g bit/s is written as %g %s", v, x, s.Name)
		}
	})
}
