package tcp

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Who chose no method sends zero-copy.
func TestSendsPiped(t *testing.T) {
	for _, c := range []struct {
		spec measurement.Spec
		want bool
	}{
		{measurement.Spec{}, true},
		{measurement.Spec{PacingBitsPerSecond: 1e9}, true},
		{measurement.Spec{MPTCP: true}, false},
		{measurement.Spec{CopyPayload: true}, true}, // the receiver's end
		{measurement.Spec{SendMethod: measurement.SendZerocopy, MPTCP: true}, true},
		{measurement.Spec{SendMethod: measurement.SendCopy}, false},
	} {
		if got := sendsPiped(c.spec); got != c.want {
			t.Errorf("%+v: piped %v, want %v", c.spec, got, c.want)
		}
	}
}
