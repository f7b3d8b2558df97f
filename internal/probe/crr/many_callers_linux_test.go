package crr_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/crr"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Thousands of connections at a time take a few threads, and ten thousand are made.
func TestManyCallers(t *testing.T) {
	most := testutil.Repeat(crr.ThreadCallers+1, probe.MaxFlows) // the race detector bounds goroutines at 8128
	testutil.Need(t, hostinfo.MaxDescriptors() >= most+200, "more open files (ulimit -n)")
	_, target := servertest.StartServer(t, 0)
	req := probe.Request{Target: target, Spec: measurement.Spec{Kind: measurement.CRR, Flows: most, Duration: measurement.Seconds(testutil.Repeat(1, 2)), MaxWarmup: 0.5}}
	// A host that is busy may serve none in that time, which is a reason, too.
	if err := servertest.RunLimitedClient(t, hostinfo.MaxDescriptors(), req); err != nil && !strings.Contains(err.Error(), "timeout") {
		t.Fatal(err)
	}
	req.Spec.Flows = crr.ThreadCallers + 1
	a := servertest.RunClient(t, req)
	if a.Outcome.Latency.Samples == 0 || a.Outcome.Effective["flow_scheduling"] != session.Scheduling(false) {
		t.Errorf("%d connections, %v", a.Outcome.Latency.Samples, a.Outcome.Effective)
	}
	if a.Usage.Threads > 40 {
		t.Errorf("%d threads", a.Usage.Threads)
	}
}
