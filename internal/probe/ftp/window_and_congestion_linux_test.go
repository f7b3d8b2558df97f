package ftp_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The window that the sender of a file sees is that of the test, and a congestion control
// that the sending end lacks is refused by it.
func TestFTPAsTheEndsWantIt(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, direction := range []measurement.Direction{measurement.Receive, measurement.Send} {
		spec := measurement.Spec{Kind: measurement.FTP, FileBytes: 200_000_000, Direction: direction, WindowBytes: 400_000, CongestionControl: "reno"}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		testutil.OK(t, err)
		var seen []int64
		for _, i := range out.Flows[0].Info {
			seen = append(seen, i.SendWindow)
		}
		slices.Sort(seen)
		// The scale of the window rounds it.
		if len(seen) == 0 || seen[len(seen)/2] > 420_000 {
			t.Errorf("%s: the sender saw windows of %d bytes, asked for were 400000", direction, seen)
		}
		if out.Effective["congestion_control"] != "reno" || out.Effective["window_clamp_bytes"] != "400000" {
			t.Errorf("%s: %v", direction, out.Effective)
		}
		spec.CongestionControl = "none-such"
		_, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Unsupported || !strings.Contains(err.Error(), "none-such") {
			t.Errorf("%s: %v", direction, err)
		}
	}
}
