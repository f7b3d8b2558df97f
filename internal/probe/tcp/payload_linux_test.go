package tcp

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Who chose no method gets the one that suits the congestion control in effect.
func TestSendsFile(t *testing.T) {
	for _, c := range []struct {
		spec       measurement.Spec
		congestion string
		want       bool
	}{
		{measurement.Spec{}, "cubic", true},
		{measurement.Spec{}, "reno", true},
		{measurement.Spec{}, "", true}, // unknown
		{measurement.Spec{}, "bbr", false},
		{measurement.Spec{}, "bbr2", false},
		{measurement.Spec{PacingBitsPerSecond: 1e9}, "cubic", true},
		{measurement.Spec{MPTCP: true}, "cubic", false},
		{measurement.Spec{CopyPayload: true}, "cubic", true}, // the receiver's end
		{measurement.Spec{CongestionControl: "bbr"}, "cubic", true},
		{measurement.Spec{SendMethod: measurement.SendZerocopy}, "bbr", true},
		{measurement.Spec{SendMethod: measurement.SendZerocopy, MPTCP: true}, "cubic", true},
		{measurement.Spec{SendMethod: measurement.SendCopy}, "cubic", false},
	} {
		if got := sendsPiped(c.spec, c.congestion); got != c.want {
			t.Errorf("%+v with %q: piped %v, want %v", c.spec, c.congestion, got, c.want)
		}
	}
}
