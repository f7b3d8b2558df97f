package crr_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A crr test makes many more connections than there are ports, and says what
// is missing when none is free. It needs a network namespace, whose range of
// ports it can make small.
func TestCRRBeyondThePorts(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, beyondThePorts)
}

func beyondThePorts(t *testing.T) {
	testutil.OK(t, testutil.LoopbackUp())
	const ports = 64
	sysctl(t, "ip_local_port_range", fmt.Sprintf("40000 %d", 40000+ports-1))
	sysctl(t, "tcp_tw_reuse", "0") // a client must not depend on it
	target := servertest.Serve(t, probe.ServerOptions{MaxConnections: 4 * ports})
	// What waits out its TIME_WAIT to one server holds no port to the other.
	other := servertest.Serve(t, probe.ServerOptions{MaxConnections: 4 * ports})
	for _, spec := range []measurement.Spec{{Flows: 1}, {Flows: 8}, {Flows: 2, ResponseBytes: 20_000}} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.CRR, 1, 0.05
		for _, source := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1")} {
			testutil.Longer(t, func(factor float64) string {
				spec.Duration = measurement.Seconds(0.5 * factor)
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Source: source}, nil)
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
	_, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2 * ports, Duration: 0.1, MaxWarmup: 0.01}, Target: other}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || !strings.Contains(e.Error(), "ip_local_port_range") {
		t.Errorf("more flows than ports: got %v", err)
	}
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.1, MaxWarmup: 0.01}, Target: other}, nil); err != nil {
		t.Errorf("after a test beyond the ports: %v", err)
	}
	// Others hold every port but that of the control connection.
	for range ports - 1 {
		c, err := net.Dial("tcp", target.String())
		testutil.OK(t, err)
		defer c.Close()
	}
	_, err = probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.CRR, Duration: 0.1, MaxWarmup: 0.01}, Target: target}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Local || !strings.Contains(e.Error(), "ip_local_port_range") {
		t.Errorf("got %v", err)
	}
}

func sysctl(t *testing.T, name, value string) {
	t.Helper()
	testutil.OK(t, os.WriteFile(filepath.Join("/proc/sys/net/ipv4", name), []byte(value), 0))
}
