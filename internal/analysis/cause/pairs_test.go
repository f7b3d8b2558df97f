package cause_test

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// A spec is of one pair, a trial of all pairs: four that offer 100 Mbit/s each and bring 300
// together are not limited by what they offer.
func TestOfferedRateIsOfEachPair(t *testing.T) {
	udp := result.TestInfo{Name: "udp", Spec: measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: 100e6, Flows: 1}.Defaults()}
	for total, limited := range map[float64]bool{300e6: false, 399e6: true} {
		var trials []measurement.Trial
		for b := range 8 {
			for _, path := range []string{"direct", "hop"} {
				x := trialOf(path, "udp", goodput, total*(1+1e-4*float64((b*3)%5)))
				x.ID, x.Block, x.Pairs = fmt.Sprint(b, path), b+1, make([]measurement.Pair, 4)
				trials = append(trials, x)
			}
		}
		for _, c := range analysis.Analyse(trials, []result.TestInfo{udp}, pathsNamed("direct", "hop"), analysis.Options{}).Costs {
			if c.Metric == goodput && (c.CommonLimit != nil) != limited || limited && c.CommonLimit != nil && c.CommonLimit.RateBitsPerSecond != 400e6 {
				t.Errorf("of %g bit/s: %+v", total, c.CommonLimit)
			}
		}
	}
}

// Each flow of each pair is tried again a tenth slower than it was.
func TestSlowerIsOfEachPair(t *testing.T) {
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 100}
	for _, pairs := range []int{1, 3} {
		x := throughputTrial(80e6*float64(pairs), lossy.build())
		for range pairs - 1 {
			x.Flows = append(x.Flows, lossy.build())
		}
		x.Pairs, x.Test = make([]measurement.Pair, pairs), "flows"
		test := result.TestInfo{Name: "flows", Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}
		varied := analysis.Vary([]measurement.Trial{x}, []result.TestInfo{test}, pathsNamed("hop"), analysis.Options{})
		if len(varied) != 1 || varied[0].Test.Intervention != result.Slower || varied[0].Test.Spec.PacingBitsPerSecond != 72e6 {
			t.Errorf("%d pairs: %+v", pairs, varied)
		}
	}
}
