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

// A search that no path bounds is measured as one that ends at a low rate: with the same packets,
// which are sent and received in the same way.
func TestSearchesAreMeasuredInOneWay(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	var ways []string
	for _, rate := range []float64{0, 2e6} {
		spec := measurement.Spec{Kind: measurement.UDP, Duration: 0.6, LossBound: 0.5, RateBitsPerSecond: rate}
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
		testutil.OK(t, err)
		way := ""
		for _, key := range append(measurement.Instrument(), "packet_bytes") {
			way += key + " " + out.Effective[key] + "; "
		}
		ways = append(ways, way)
	}
	if ways[0] != ways[1] {
		t.Errorf("%s\n%s", ways[0], ways[1])
	}
}

// Who watches a search sees one test, whose time goes on from step to step.
func TestProgressOfALossSearch(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 1000, Duration: 0.6, LossBound: 0.01, RateBitsPerSecond: 2e7}
	last, signs := measurement.Seconds(0), 0
	_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, func(p measurement.Progress) {
		if signs++; p.Elapsed < last {
			t.Errorf("after %v s into the test it is %v s", last, p.Elapsed)
		}
		last = p.Elapsed
	})
	testutil.OK(t, err)
	if signs < 2 {
		t.Errorf("%d signs of life", signs)
	}
}
