package measurement_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
)

// What is kept of a series is part of it, in order, with the sample that opens
// the measured time and the last; thinning again changes nothing.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flows := rapid.IntRange(1, 12_000).Draw(t, "flows")
		samples := rapid.IntRange(0, 60).Draw(t, "samples")
		warmup := measurement.Seconds(rapid.IntRange(0, 70).Draw(t, "warm-up")) / 10
		var series []measurement.TCPInfo
		for i := range samples {
			series = append(series, measurement.TCPInfo{At: measurement.Seconds(i) / 10, RTT: 1e-3})
		}
		o := measurement.Outcome{Warmup: warmup, Flows: make([]measurement.Flow, flows)}
		for i := range o.Flows {
			o.Flows[i].Info = slices.Clone(series)
		}
		o.Thin()
		for _, f := range o.Flows {
			checkThinned(t, f.Info, series, warmup, flows)
		}
		again := measurement.Outcome{Warmup: warmup, Flows: slices.Clone(o.Flows)}
		again.Thin()
		if !reflect.DeepEqual(again, o) {
			t.Fatal("thinning twice is not thinning once")
		}
	})
}

func checkThinned(t *rapid.T, got, series []measurement.TCPInfo, warmup measurement.Seconds, flows int) {
	if flows > 5000 {
		if len(got) > 0 {
			t.Fatalf("%d flows keep %d samples each", flows, len(got))
		}
		return
	}
	if flows <= 8 || len(series) <= 2 {
		if !reflect.DeepEqual(got, series) {
			t.Fatalf("%d flows: %d of %d samples are left", flows, len(got), len(series))
		}
		return
	}
	if len(got) < 2 || len(got) > 20 || len(got)*flows > 10_000 {
		t.Fatalf("%d flows keep %d of %d samples", flows, len(got), len(series))
	}
	at := -1
	for _, s := range got {
		i := slices.Index(series, s)
		if i <= at {
			t.Fatalf("sample %d comes after sample %d", i, at)
		}
		at = i
	}
	if at != len(series)-1 {
		t.Fatalf("the last sample is %d of %d", at, len(series))
	}
	least := func(of []measurement.TCPInfo) float64 {
		d := math.Inf(1)
		for _, s := range of[:len(of)-1] {
			d = min(d, math.Abs(float64(s.At-warmup)))
		}
		return d
	}
	if least(got) != least(series) {
		t.Fatalf("the sample nearest to the end of the warm-up at %v s is not kept: %v of %v", warmup, got, series)
	}
}

// All hops together keep a bounded number of samples, each enough for a line,
// with that which opens the measured time and the last.
func TestThinHops(t *testing.T) {
	const warmup = 2.03
	for _, c := range []struct{ hops, samples, keep int }{
		{1, 300, 300}, {4, 300, 300}, {20, 300, 100}, {20, 90, 90}, {200, 300, 20}, {3, 1, 1},
	} {
		var whole []measurement.HopSample
		for i := range c.samples {
			whole = append(whole, measurement.HopSample{At: measurement.Seconds(i)/10 - 0.02, ForwardBytes: float64(i)})
		}
		o := measurement.Outcome{Warmup: warmup}
		for range c.hops {
			o.HopSeries = append(o.HopSeries, measurement.HopSeries{Samples: slices.Clone(whole)})
		}
		o.Thin()
		for i, s := range o.HopSeries {
			if len(s.Samples) != c.keep || s.Samples[0] != whole[0] || s.Samples[c.keep-1] != whole[c.samples-1] {
				t.Fatalf("%d hops of %d samples: hop %d keeps %d, want %d with both ends", c.hops, c.samples, i, len(s.Samples), c.keep)
			}
			if c.samples > 21 && !slices.Contains(s.Samples, whole[20]) && !slices.Contains(s.Samples, whole[21]) {
				t.Errorf("%d hops: no sample at the end of the warm-up: %v", c.hops, s.Samples)
			}
		}
		again := o
		again.HopSeries = slices.Clone(o.HopSeries)
		again.Thin()
		if !reflect.DeepEqual(again, o) {
			t.Errorf("%d hops: thinning twice is not thinning once", c.hops)
		}
	}
}

// Outcomes that are kept together are thinned together.
func TestThinAmong(t *testing.T) {
	for _, test := range []struct{ flows, outcomes, want int }{{8, 1, 60}, {8, 0, 60}, {8, 2, 20}, {64, 1, 20}, {64, 30, 5}, {64, 100, 0}} {
		o := measurement.Outcome{Flows: make([]measurement.Flow, test.flows)}
		for i := range o.Flows {
			o.Flows[i].Info = make([]measurement.TCPInfo, 60)
		}
		o.ThinAmong(test.outcomes)
		for i, f := range o.Flows {
			if len(f.Info) != test.want {
				t.Fatalf("%d flows of each of %d outcomes: flow %d keeps %d samples, want %d", test.flows, test.outcomes, i, len(f.Info), test.want)
			}
		}
	}
}
