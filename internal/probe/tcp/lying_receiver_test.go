package tcp_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lyingServer is a receiver that counts only part of what reaches it.
func lyingServer(t *testing.T, report func(bins int, width time.Duration) measurement.Bins) netip.AddrPort {
	return servertest.Handshaken(t, func(c net.Conn, open protocol.Open) {
		// It reads a little, whatever is sent, and says so when time is up.
		if _, err := io.CopyN(io.Discard, c, 100_000); err != nil {
			t.Errorf("lying server: %v", err)
		}
		bins, width := session.BinsOf(open.Spec)
		time.Sleep(session.Planned(open.Spec))
		if err := protocol.WriteFrame(c, protocol.TypeReceived, protocol.Received{Bins: report(bins, width)}); err != nil {
			t.Errorf("lying server: %v", err)
		}
		_, _ = io.Copy(io.Discard, c) // until the client resets
	})
}

// Goodput is what the receiver counted, however much was sent.
func TestGoodputFollowsTheReceiver(t *testing.T) {
	const perBin = 1000
	target := lyingServer(t, func(bins int, width time.Duration) measurement.Bins {
		b := measurement.Bins{Width: measurement.SecondsOf(width)}
		for range bins {
			b.Bytes = append(b.Bytes, perBin)
		}
		return b
	})
	spec := measurement.Spec{Kind: measurement.TCP, Duration: 0.2, MaxWarmup: 0.05, Flows: 3}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
	testutil.OK(t, err)
	if got, want := out.Metrics["goodput_bits_per_second"], 3.0*perBin*8/0.01; got != want {
		t.Errorf("goodput %g bit/s, the receivers counted %g", got, want)
	}
	for _, f := range out.Flows {
		if f.SentBytes <= f.ReceivedBytes {
			t.Errorf("sent %d, received %d: the test did not send more than was counted", f.SentBytes, f.ReceivedBytes)
		}
	}
}

// A count that cannot be one is refused.
func TestImpossibleCounts(t *testing.T) {
	for name, report := range map[string]func(int, time.Duration) measurement.Bins{
		"none":     func(int, time.Duration) measurement.Bins { return measurement.Bins{} },
		"too few":  func(n int, w time.Duration) measurement.Bins { return binsLike(n-1, w, 1) },
		"too many": func(n int, w time.Duration) measurement.Bins { return binsLike(n+1, w, 1) },
		"negative": func(n int, w time.Duration) measurement.Bins { return binsLike(n, w, -1) },
		"huge":     func(n int, w time.Duration) measurement.Bins { return binsLike(n, w, 1e300) },
		"narrow":   func(n int, w time.Duration) measurement.Bins { return binsLike(n, w/10, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := measurement.Spec{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01}
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: lyingServer(t, report)}, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Protocol {
				t.Errorf("got %v, want reason protocol", err)
			}
		})
	}
}

func binsLike(n int, width time.Duration, value float64) measurement.Bins {
	b := measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, n)}
	for i := range b.Bytes {
		b.Bytes[i] = value
	}
	return b
}
