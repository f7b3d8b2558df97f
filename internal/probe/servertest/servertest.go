// Package servertest runs servers for the tests of kinds: in this process or in one of
// their own, behind something that cuts or holds up what passes, and servers that open
// a connection properly and then do what a test wants. It imports package probe, so the
// tests of a kind that use it are in a package of their own, tcp_test for package tcp.
package servertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Main runs the tests of a package whose tests need servers, and fails if they leave
// goroutines behind. Its place is TestMain.
func Main(m *testing.M) {
	flag.Parse()
	// Parallel tests of such a package wait for most of their time; there may be
	// more of them than CPUs.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Token is that of servers that have one.
const Token = "a shared secret"

// FreePorts is the first of n local ports that were free a moment ago.
func FreePorts(t testing.TB, n int) int {
	t.Helper()
	first, err := testutil.FreePorts(n)
	testutil.OK(t, err)
	return int(first)
}

// Listen listens at a free port of loopback.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)))
	for errors.Is(err, syscall.EADDRINUSE) { // a test beside this one drew the same
		ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)))
	}
	testutil.OK(t, err)
	return ln
}

// Serve runs a server on a free port of loopback for the length of the test.
func Serve(t testing.TB, o probe.ServerOptions) netip.AddrPort {
	t.Helper()
	return ServeListener(t, o, Listen(t))
}

// ServeListener runs a server on ln for the length of the test.
func ServeListener(t testing.TB, o probe.ServerOptions, ln net.Listener) netip.AddrPort {
	t.Helper()
	s, err := probe.NewServer(o)
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server did not end")
		}
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// Context is one for a test against a server, which ends a minute from now at the latest.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// CancelMidway runs an endless test until its first sign of life, and holds that it ends as one
// that its caller ended.
func CancelMidway(t *testing.T, target netip.AddrPort, spec measurement.Spec) {
	t.Helper()
	spec.Duration = 600
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	_, err := probe.Run(ctx, probe.Request{Spec: spec, Target: target}, func(measurement.Progress) { cancel() })
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Cancelled {
		t.Errorf("%v: got %v", spec, err)
	}
}

// FewAndMany are the flows of a tcp test on threads and of one on the shared poller.
var FewAndMany = []int{2, session.ThreadConnections + 6}

// ShortTCP is a tcp test as short as it may be where something is to be measured.
func ShortTCP(flows int, direction measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Flows: flows, Direction: direction, Duration: 0.1, MaxWarmup: 0.02}
}

// AwaitDescriptors waits until no more files are open than before. A server closes
// its ends a little after the client does.
func AwaitDescriptors(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); Descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors before, %d after", before, Descriptors(t))
		}
	}
}

// Descriptors counts this process's open files, on Linux.
func Descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testutil.OK(t, err)
	return len(entries)
}
