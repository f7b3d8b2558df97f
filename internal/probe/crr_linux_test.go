package probe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A crr test makes many more connections than there are ports, and says what
// is missing when none is free. It needs a network namespace, whose range of
// ports it can make small.
func TestCRRBeyondThePorts(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, beyondThePorts)
}

func beyondThePorts(t *testing.T) {
	testutil.RaiseLoopback(t)
	const ports = 64
	sysctl(t, "ip_local_port_range", fmt.Sprintf("40000 %d", 40000+ports-1))
	sysctl(t, "tcp_tw_reuse", "0") // a client must not depend on it
	target := serve(t, ServerOptions{MaxConnections: 4 * ports})
	// What waits out its TIME_WAIT to one server holds no port to the other.
	other := serve(t, ServerOptions{MaxConnections: 4 * ports})
	for _, spec := range []measurement.Spec{{Flows: 1}, {Flows: 8}, {Flows: 2, ResponseBytes: 20_000}} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.CRR, 1, 0.05
		for _, source := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1")} {
			testutil.Longer(t, func(factor float64) string {
				spec.Duration = measurement.Seconds(0.5 * factor)
				out, err := Run(testContext(t), Request{Spec: spec, Target: target, Source: source}, nil)
				testutil.OK(t, err)
				if failed := out.Metrics["failed_connections_count"]; failed != 0 {
					t.Errorf("%v connections failed: %v", failed, out.Facts)
				}
				if out.Latency.Samples < 2*ports {
					return fmt.Sprintf("%d connections over %d ports: %v", out.Latency.Samples, ports, out.Facts)
				}
				return ""
			})
		}
	}
	// More flows than ports: the test ends with the reason, and what it took
	// comes back.
	_, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2 * ports, Duration: 0.1, MaxWarmup: 0.01}, Target: other}, nil)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Error(), "ip_local_port_range") {
		t.Errorf("more flows than ports: got %v", err)
	}
	if _, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.1, MaxWarmup: 0.01}, Target: other}, nil); err != nil {
		t.Errorf("after a test beyond the ports: %v", err)
	}
	// Others hold every port but that of the control connection.
	for range ports - 1 {
		c, err := net.Dial("tcp", target.String())
		testutil.OK(t, err)
		defer c.Close()
	}
	_, err = Run(testContext(t), Request{Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.1, MaxWarmup: 0.01}, Target: target}, nil)
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Local || !strings.Contains(e.Error(), "ip_local_port_range") {
		t.Errorf("got %v", err)
	}
}

func sysctl(t *testing.T, name, value string) {
	t.Helper()
	testutil.OK(t, os.WriteFile(filepath.Join("/proc/sys/net/ipv4", name), []byte(value), 0))
}

// A server process that is stopped in the middle of a test, while its kernel
// still takes bytes and connections, ends the test with a reason, and serves
// again once it goes on.
func TestStoppedServer(t *testing.T) {
	t.Parallel() // it waits for most of its time
	server, target := startServer(t, 0)
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
				out, err := Run(testContext(t), Request{Spec: spec, Target: target}, func(p measurement.Progress) {
					if p.RTT > 0 {
						once.Do(running.Done)
					}
				})
				once.Do(running.Done)
				if err == nil && spec.RequestsPerSecond > 0 && out.Latency.Unanswered > 0 {
					return // an open loop has all that was due as unanswered
				}
				if e, ok := errors.AsType[*Error](err); err == nil {
					over.Add(1)
				} else if !ok || e.Reason != TimedOut {
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
	if _, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.05}, Target: target}, nil); err != nil {
		t.Errorf("after the server went on: %v", err)
	}
}
