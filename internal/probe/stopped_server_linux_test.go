package probe_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A server process that is stopped in the middle of a test, while its kernel
// still takes bytes and connections, ends the test with a reason, and serves
// again once it goes on.
func TestStoppedServer(t *testing.T) {
	t.Parallel() // it waits for most of its time
	server, target := servertest.StartServer(t, 0)
	specs := []measurement.Spec{
		{Kind: measurement.RR},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, Timeout: 0.1},
		{Kind: measurement.RR, RequestsPerSecond: 1000},
		{Kind: measurement.CRR, Flows: 2},
	}
	stop := func(s os.Signal) {
		if err := server.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	// Where one begins late, another may be over before the server is stopped.
	testutil.Longer(t, func(factor float64) string {
		var wg, running sync.WaitGroup
		var over atomic.Int32
		running.Add(len(specs))
		for _, spec := range specs {
			spec.Duration, spec.MaxWarmup = measurement.Seconds(1.5*factor), 0.01
			wg.Go(func() {
				var once sync.Once
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, func(p measurement.Progress) {
					if p.RTT > 0 {
						once.Do(running.Done)
					}
				})
				once.Do(running.Done)
				if err == nil && spec.RequestsPerSecond > 0 && out.Latency.Unanswered > 0 {
					return // an open loop has all that was due as unanswered
				}
				if e, ok := errors.AsType[*probe.Error](err); err == nil {
					over.Add(1)
				} else if !ok || e.Reason != probe.TimedOut {
					t.Errorf("%s %s: %v", spec.Kind, spec.Protocol, err)
				}
			})
		}
		running.Wait()
		stop(syscall.SIGSTOP)
		wg.Wait()
		stop(syscall.SIGCONT)
		if n := over.Load(); n > 0 {
			return fmt.Sprintf("%d tests did not notice that the server was stopped", n)
		}
		return ""
	})
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.05}, Target: target}, nil); err != nil {
		t.Errorf("after the server went on: %v", err)
	}
}
