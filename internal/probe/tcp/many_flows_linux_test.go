package tcp_test

import (
	"math"
	"testing"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Thousands of flows cost memory for their sockets, not for their stacks, and
// a few threads; every one of them is counted.
func TestManyFlows(t *testing.T) {
	flows, seconds := testutil.Repeat(1_000, 10_000), 0.5
	if testutil.AtLength() {
		seconds = 1
	}
	if testutil.RaceEnabled { // the detector makes each ten times as slow, and bounds goroutines at 8128
		flows = 500
	}
	testutil.Need(t, hostinfo.MaxDescriptors() >= flows+200, "more open files (ulimit -n)")
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		t.Run(string(direction), func(t *testing.T) {
			server, target := servertest.StartServer(t, 0)
			a := servertest.RunClient(t, probe.Request{ID: "many", Target: target, Spec: measurement.Spec{
				Kind: measurement.TCP, Flows: flows, Direction: direction, Duration: measurement.Seconds(seconds), MaxWarmup: measurement.Seconds(seconds),
			}})
			if got := len(a.Outcome.Flows); got != flows {
				t.Errorf("%d flows, want %d", got, flows)
			}
			var received int64
			for _, f := range a.Outcome.Flows {
				received += f.ReceivedBytes
			}
			if goodput := a.Outcome.Metrics["goodput_bits_per_second"]; math.Abs(goodput-float64(received)*8/seconds) > 1e-9*goodput { // a busy machine may carry none in that time
				t.Errorf("goodput %g of %d received bytes in %g s", goodput, received, seconds)
			}
			far, err := servertest.UsageOf(server.Process.Pid)
			testutil.OK(t, err)
			t.Logf("client %+v, server %+v, goodput %g, facts %q", a.Usage, far, a.Outcome.Metrics["goodput_bits_per_second"], a.Outcome.Facts)
			most := int64(110<<20 + flows*19<<10) // 296 MiB of 10 000
			if sum := a.Usage.ResidentBytes + far.ResidentBytes; sum > most && !testutil.RaceEnabled {
				t.Errorf("client and server needed %d MiB", sum>>20)
			}
			if a.Usage.Threads > 40 || far.Threads > 40 {
				t.Errorf("%d and %d threads", a.Usage.Threads, far.Threads)
			}
		})
	}
}
