package crr_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/crr"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A server that trickles a response holds no caller of a crr test for longer than a
// transaction may take, nor longer than the test.
func TestTrickledTransactions(t *testing.T) {
	t.Parallel() // it waits for most of its time
	over := servertest.Context(t).Done()
	honest := servertest.Serve(t, probe.ServerOptions{})
	for _, threads := range []bool{true, false} {
		spec := measurement.Spec{Kind: measurement.CRR, Flows: 4, Duration: 0.2, MaxWarmup: 0.05, ResponseBytes: 1 << 20}
		if !threads {
			spec.Flows = crr.ThreadCallers + 1
		}
		// Everything is true but for the transactions, which come to a server of its own.
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		var wg sync.WaitGroup
		one := func(c net.Conn) {
			defer c.Close()
			first := make([]byte, 1)
			if _, err := io.ReadFull(c, first); err != nil {
				return
			}
			if first[0] == protocol.PrefaceMagic {
				server, err := net.Dial("tcp", honest.String())
				if err != nil {
					t.Error(err)
					return
				}
				defer server.Close()
				_, _ = server.Write(first)
				wg.Go(func() { _, _ = io.Copy(server, c); _ = server.(*net.TCPConn).CloseWrite() })
				_, _ = io.Copy(c, server)
				return
			}
			for tick := time.NewTicker(2 * time.Millisecond); ; {
				select {
				case <-tick.C:
				case <-over:
					return
				}
				if _, err := c.Write([]byte{0}); err != nil {
					tick.Stop()
					return
				}
			}
		}
		wg.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { one(c) })
			}
		})
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: ln.Addr().(*net.TCPAddr).AddrPort()}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut && e.Reason != probe.Vanished { // the latter when the server gives up first
			t.Errorf("%d flows: %+v, %v", spec.Flows, out.Metrics, err)
		}
		_ = ln.Close()
		wg.Wait()
	}
}
