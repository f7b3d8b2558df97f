package probe_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A host that loses its address in the middle of a test, as when it gets no new lease, is no
// path that failed.
func TestLostAddress(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, lostAddress)
}

func lostAddress(t *testing.T) {
	testutil.OK(t, testutil.LoopbackUp())
	path, err := exec.LookPath("ip")
	testutil.Need(t, err == nil, "ip of iproute2")
	address := func(do string) {
		if out, err := exec.Command(path, "address", do, "192.0.2.1/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.UDP, Duration: 1, MaxWarmup: 0.05},
		{Kind: measurement.RR, Duration: 1, MaxWarmup: 0.05},
		{Kind: measurement.Ping, Count: 20, Interval: 0.05, Timeout: 0.1},
	} {
		address("add")
		var once sync.Once
		request := probe.Request{Spec: spec, Target: target, Source: netip.MustParseAddr("192.0.2.1")}
		_, err := probe.Run(servertest.Context(t), request, func(measurement.Progress) { once.Do(func() { address("delete") }) })
		if probe.ReasonOf(err) != probe.Local || !strings.Contains(err.Error(), "this host has lost its address 192.0.2.1: ") {
			t.Errorf("%s: %v", spec.Kind, err)
		}
	}
}
