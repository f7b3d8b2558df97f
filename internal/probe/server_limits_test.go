package probe_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

// A test that asks for more than an end allows is refused before it begins, whatever it consists of.
func TestRateIsRefused(t *testing.T) {
	const limit = 1e8
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Flows: 2, PacingBitsPerSecond: 6e7},
		{Kind: measurement.UDP, RateBitsPerSecond: 1.1e8},
		{Kind: measurement.RR, RequestsPerSecond: 1e4, RequestBytes: 700, ResponseBytes: 700},
		{Kind: measurement.Ping, Count: 100, Interval: 100e-6, PayloadBytes: 1400},
		{Kind: measurement.Load, Flows: 2, PacingBitsPerSecond: 6e7},
		{Kind: measurement.Load, RequestsPerSecond: 1e4, RequestBytes: 700, ResponseBytes: 700},
	} {
		err := probe.Limits{MaxRateBitsPerSecond: limit}.Refuse(spec.Defaults())
		if err == nil || !strings.Contains(err.Error(), "--max-rate") {
			t.Errorf("%+v: %v", spec, err)
		}
		if err := (probe.Limits{MaxRateBitsPerSecond: 1.2 * limit}).Refuse(spec.Defaults()); err != nil {
			t.Errorf("%s within the limit: %v", spec.Kind, err)
		}
	}
}
