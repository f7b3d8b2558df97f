package probe

import (
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A server process that is stopped keeps its sockets open and answers nothing.
func TestServerIsSuspended(t *testing.T) {
	for _, flows := range fewAndMany {
		t.Run(strconv.Itoa(flows), func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			server, target := startServer(t, 0)
			spec := shortTCP(flows, measurement.Send)
			spec.Duration = 1
			stopped := false
			_, err := Run(testContext(t), Request{Target: target, Spec: spec}, func(measurement.Progress) {
				if !stopped { // the transfer is under way
					stopped = server.Process.Signal(syscall.SIGSTOP) == nil
				}
			})
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != TimedOut {
				t.Errorf("got %v, want a timeout", err)
			}
			testutil.OK(t, server.Process.Signal(syscall.SIGCONT))
			testutil.Longer(t, func(float64) string { // it may still be busy with the first
				if _, err := Run(testContext(t), session.Request{Target: target, Spec: shortTCP(flows, measurement.Receive)}, nil); err != nil {
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
	_, target := startServer(t, files)
	spec := shortTCP(files, measurement.Send)
	endsWith(t, "more flows than descriptors", Request{Target: target, Spec: spec}, Limit)

	var idle []net.Conn
	for range files {
		c, err := net.DialTimeout("tcp", target.String(), 5*time.Second)
		testutil.OK(t, err)
		idle = append(idle, c)
	}
	if _, err := Run(testContext(t), Request{Target: target, Spec: shortTCP(1, measurement.Send)}, nil); err != nil {
		t.Errorf("beside %d silent connections: %v", files, err)
	}
	giveBack(t, idle)
	if _, err := Run(testContext(t), Request{Target: target, Spec: shortTCP(2, measurement.Both)}, nil); err != nil {
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
	target := serve(t, ServerOptions{})
	err := runLimitedClient(t, 100, Request{Target: target, Spec: shortTCP(90, measurement.Send)})
	if err == nil || !containsAll(err.Error(), "unsupported", "ulimit -n") {
		t.Errorf("got %v", err)
	}
}
