package probe_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

var shortSpecs = []measurement.Spec{
	{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01},
	{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01, Direction: measurement.Receive},
	{Kind: measurement.RR, Duration: 0.02, MaxWarmup: 0.01},
}

// A connection that breaks after any number of bytes (one of five, unless at
// length) ends the client's test
// with a reason, and leaves the server as it was.
func TestPeerVanishesAtEveryByte(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, spec := range shortSpecs {
		opening := servertest.BytesOf(t, target, spec)
		var cuts []int64
		for n := int64(0); n <= opening+protocol.HeaderBytes+1; n += int64(testutil.Repeat(5, 1)) {
			cuts = append(cuts, n)
		}
		// An rr test may be done by then.
		for n := opening + 100; n < opening+20_000 && spec.Kind == measurement.TCP; n = n*5/4 + 1 {
			cuts = append(cuts, n)
		}
		var group errgroup.Group
		group.SetLimit(8)
		for _, n := range cuts {
			group.Go(func() error {
				p, addr := servertest.StartProxy(t, target, n, false)
				defer p.Close()
				began := time.Now()
				_, err := probe.Run(servertest.Context(t), probe.Request{ID: "cut", Spec: spec, Target: addr, Token: servertest.Token}, nil)
				if cut := p.Cut(); err == nil && (cut == nil || cut.Sub(began) > spec.Duration.Duration()) {
					return nil // on a busy machine so few bytes are a whole test
				}
				if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Vanished && e.Reason != probe.TimedOut {
					t.Errorf("%s %s cut after %d bytes: %v", spec.Kind, spec.Direction, n, err)
				}
				return nil
			})
		}
		_ = group.Wait() // failures were reported
		if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil); err != nil {
			t.Errorf("after %d broken connections: %v", len(cuts), err)
		}
	}
}

// An end that stops in the middle, and stays connected, ends the test by its
// own deadline.
func TestPeerStalls(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	var group errgroup.Group // all at once: each takes as long as its deadline
	for _, spec := range shortSpecs {
		opening := servertest.BytesOf(t, target, spec)
		for _, n := range []int64{1, opening / 2, opening + protocol.HeaderBytes, opening + protocol.HeaderBytes + 11} {
			group.Go(func() error {
				p, addr := servertest.StartProxy(t, target, n, true)
				defer p.Close()
				_, err := probe.Run(servertest.Context(t), probe.Request{ID: "stall", Spec: spec, Target: addr, Token: servertest.Token}, nil)
				// An end that gives up first says so, or just leaves.
				if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut && e.Reason != probe.Vanished {
					t.Errorf("%s %s stalled after %d bytes: %v", spec.Kind, spec.Direction, n, err)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // failures were reported
}

func TestNoDescriptorLeaks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("needs /proc/self/fd to count descriptors; this is %s", runtime.GOOS)
	}
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	round := func() {
		var wg sync.WaitGroup // all at once: what is cut may take as long as its deadline
		for _, spec := range append(shortSpecs, measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.02}) {
			wg.Go(func() {
				if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil); err != nil {
					t.Error(err)
				}
				after := int64(700)
				if spec.Protocol == measurement.OverUDP {
					after = 300 // later, it would look for a port that gets through to the proxy
				}
				p, addr := servertest.StartProxy(t, target, after, false)
				defer p.Close()
				if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr, Token: servertest.Token}, nil); err == nil {
					t.Error("a test over a cut connection succeeded")
				}
				_, _ = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: "wrong"}, nil) // an error, tested elsewhere
			})
		}
		wg.Wait()
	}
	round()
	before := servertest.Descriptors(t)
	round()
	servertest.AwaitDescriptors(t, before)
}

func TestServerTalksGarbage(t *testing.T) {
	for _, c := range []struct{ name, bytes string }{
		{"SSH", "SSH-2.0-OpenSSH_9.2p1\r\n"},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"another version", "\xf0hopbnc\x09"},
		{"noise after the preface", "\xf0hopbnc\x01\xff\xff\xff\xff\xff\xff\xff\xff"},
		{"the wrong frame", "\xf0hopbnc\x01\x11\x00\x00\x00\x00\x00\x00\x02{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: shortSpecs[0], Target: servertest.Garbage(t, []byte(c.bytes))}, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Protocol {
				t.Errorf("got %v, want reason protocol", err)
			}
		})
	}
}
