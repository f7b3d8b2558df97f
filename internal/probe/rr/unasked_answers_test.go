package rr_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/protocol"
)

// More answers than requests end an rr test, whether its loop is closed or open.
func TestAnswersToNobody(t *testing.T) {
	for name, spec := range map[string]measurement.Spec{
		"one at a time": {},
		"several":       {InFlight: 4},
		"open loop":     {RequestsPerSecond: 500},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.RR, 0.1, 0.01
		twice := servertest.Handshaken(t, func(c net.Conn, open protocol.Open) {
			request := make([]byte, open.Spec.RequestBytes)
			for {
				if _, err := io.ReadFull(c, request); err != nil {
					return
				}
				if _, err := c.Write(make([]byte, 2*open.Spec.ResponseBytes)); err != nil {
					return
				}
			}
		})
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: twice}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Protocol {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that ends a test in place of a response is heard, in every loop.
func TestServerEndsRR(t *testing.T) {
	for name, spec := range map[string]measurement.Spec{
		"one at a time":   {},
		"large responses": {ResponseBytes: 3000},
		"spinning":        {Spin: true},
		"several":         {InFlight: 4},
		"open loop":       {RequestsPerSecond: 500, ResponseBytes: 10},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.RR, 600, 0.01
		ending := servertest.Handshaken(t, func(c net.Conn, open protocol.Open) {
			request := make([]byte, open.Spec.RequestBytes)
			for range 10 {
				if _, err := io.ReadFull(c, request); err != nil {
					return
				}
				if _, err := c.Write(make([]byte, open.Spec.ResponseBytes)); err != nil {
					return
				}
			}
			_ = protocol.WriteFrame(c, protocol.TypeError, protocol.RemoteError{Reason: string(probe.Limit), Message: "too much"})
			_, _ = io.Copy(io.Discard, c) // until the client has read it
		})
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: ending}, nil)
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Limit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client of an rr test learns which limit of the server it exceeded, whatever it has sent
// meanwhile.
func TestServerLimitsRR(t *testing.T) {
	t.Parallel() // the server measures the rate over seconds
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 1e6}})
	for name, spec := range map[string]measurement.Spec{
		"one at a time": {RequestBytes: 20_000, ResponseBytes: 20_000},
		"several":       {RequestBytes: 20_000, ResponseBytes: 20_000, InFlight: 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec.Kind, spec.Duration = measurement.RR, 600
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Limit {
				t.Errorf("got %v", err)
			}
		})
	}
}
