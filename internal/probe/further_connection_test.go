package probe_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lastDoor is a listener that is gone once it has accepted one connection.
type lastDoor struct {
	net.Listener
	accepted atomic.Bool
}

func (d *lastDoor) Accept() (net.Conn, error) {
	if d.accepted.Swap(true) {
		return nil, net.ErrClosed
	}
	c, err := d.Listener.Accept()
	return c, errors.Join(err, d.Close())
}

// Where something allows a test some of its connections only, the error says so, and does
// not look like that of a host without a server.
func TestFurtherConnectionsFail(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Flows: 4, Duration: 0.1, MaxWarmup: 0.01},
		{Kind: measurement.TCP, Tool: measurement.IPerf3, Flows: 4, Duration: 1},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		var f servertest.Forwarder
		door := f.ListenOn(&lastDoor{Listener: ln}, target, func(_ int, client, server net.Conn) {
			f.Go(func() { _, _ = io.Copy(server, client) })
			f.Go(func() { _, _ = io.Copy(client, server) })
		})
		_, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: door}, nil)
		f.Close()
		failed := new(probe.Error)
		if !errors.As(err, &failed) || !failed.Further || failed.Reason != probe.Refused || !strings.Contains(err.Error(), " of 4: ") {
			t.Errorf("%s %s: %v", spec.Kind, spec.Tool, err)
		}
	}
}
