package udp_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunLossSearch(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 1000, Duration: 0.6, LossBound: 0.01, RateBitsPerSecond: 2e7}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
	testutil.OK(t, err)
	if len(out.LossSearch) < 2 {
		t.Errorf("steps %+v", out.LossSearch)
	}
	for _, s := range out.LossSearch {
		if s.OfferedBitsPerSecond <= 0 || s.ReceivedBitsPerSecond > s.OfferedBitsPerSecond || s.Loss < 0 || s.Loss > 1 {
			t.Errorf("step %+v", s)
		}
	}
	if last := out.LossSearch[len(out.LossSearch)-1]; last.OfferedBitsPerSecond != out.Metrics["sent_bits_per_second"] {
		t.Errorf("the metrics are not those of the last step: %+v, %v", last, out.Metrics)
	}
}
