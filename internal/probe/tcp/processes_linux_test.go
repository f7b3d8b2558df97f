package tcp_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A server process that is stopped keeps its sockets open and answers nothing.
func TestServerIsSuspended(t *testing.T) {
	for _, flows := range servertest.FewAndMany {
		t.Run(strconv.Itoa(flows), func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			server, target := servertest.StartServer(t, 0)
			spec := servertest.ShortTCP(flows, measurement.Send)
			spec.Duration = 1
			stopped := false
			_, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: spec}, func(measurement.Progress) {
				if !stopped { // the transfer is under way
					stopped = server.Process.Signal(syscall.SIGSTOP) == nil
				}
			})
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut {
				t.Errorf("got %v, want a timeout", err)
			}
			testutil.OK(t, server.Process.Signal(syscall.SIGCONT))
			testutil.Longer(t, func(float64) string { // it may still be busy with the first
				if _, err := probe.Run(servertest.Context(t), session.Request{Target: target, Spec: servertest.ShortTCP(flows, measurement.Receive)}, nil); err != nil {
					return "after the server went on: " + err.Error()
				}
				return ""
			})
		})
	}
}

// A server of few descriptors says so to a test that could never fit, and serves a
// client all the same while more connections than it has room for are silent.
func TestServerRunsOutOfDescriptors(t *testing.T) {
	const files = 200
	_, target := servertest.StartServer(t, files)
	spec := servertest.ShortTCP(files, measurement.Send)
	endsWith(t, "more flows than descriptors", probe.Request{Target: target, Spec: spec}, probe.Limit)

	var idle []net.Conn
	for range files {
		c, err := net.DialTimeout("tcp", target.String(), 5*time.Second)
		testutil.OK(t, err)
		idle = append(idle, c)
	}
	if _, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: servertest.ShortTCP(1, measurement.Send)}, nil); err != nil {
		t.Errorf("beside %d silent connections: %v", files, err)
	}
	giveBack(t, idle)
	if _, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: servertest.ShortTCP(2, measurement.Both)}, nil); err != nil {
		t.Errorf("with descriptors again: %v", err)
	}
}

// giveBack closes connections and returns once the server has closed its ends:
// until then it may well be without descriptors.
func giveBack(t *testing.T, connections []net.Conn) {
	t.Helper()
	for _, c := range connections {
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range connections {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server kept an idle connection: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// So does a client, in words.
func TestClientRunsOutOfDescriptors(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	err := servertest.RunLimitedClient(t, 100, probe.Request{Target: target, Spec: servertest.ShortTCP(90, measurement.Send)})
	if err == nil || !servertest.ContainsAll(err.Error(), "unsupported", "ulimit -n") {
		t.Errorf("got %v", err)
	}
}
