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
