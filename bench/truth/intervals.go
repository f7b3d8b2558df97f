package main

import (
	"context"
	"fmt"
	"math"

	"github.com/hopbench/hopbench/internal/result"
)

// effect is what a path was given that its baseline does not have.
type effect struct {
	label  string
	path   string
	metric string
	// ratio of the metric to the baseline's, or difference in seconds, that the
	// path must show.
	ratio, difference float64
}

// plantedRates is a baseline of 50 Mbit/s and paths whose hop carries less.
func plantedRates() (d design, effects []effect) {
	d = design{name: "rates", blocks: 8, tests: []test{{"tcp", "kind: tcp, duration: 300ms, max_warmup: 200ms"}}}
	for _, less := range []int{0, 1, 2, 5, 10, 20, 30} {
		name := fmt.Sprintf("less-%d", less)
		d.paths = append(d.paths, path{name, fmt.Sprintf("{type: link, delay: 500us}, {type: router, name: hop, rate: %dkbit}", 500*(100-less))})
		if less > 0 {
			effects = append(effects, effect{fmt.Sprintf("rate −%d %%", less), name, "goodput_bits_per_second", 1 - float64(less)/100, 0})
		}
	}
	return d, effects
}

// plantedDelays is a baseline whose round trip is 2 ms on the wires, and paths on
// which it is longer.
func plantedDelays() (d design, effects []effect) {
	d = design{name: "delays", blocks: 8, tests: []test{{"rr", "kind: rr, protocol: udp, duration: 150ms, max_warmup: 20ms"}}}
	for _, more := range []int{0, 20, 50, 100, 200, 500, 1000} {
		name := fmt.Sprintf("more-%d", more)
		d.paths = append(d.paths, path{name, fmt.Sprintf("{type: link, delay: %dus}", 1000+more/2)})
		if more > 0 {
			effects = append(effects, effect{fmt.Sprintf("round trip +%d µs", more), name, "rtt_p50_seconds", 0, float64(more) * 1e-6})
		}
	}
	return d, effects
}

// estimates are what the runs said of one effect.
type estimates struct {
	covers proportion
	// none is how many effects had too few pairs for an interval.
	none int
	// unbounded intervals have no end on one side, because trials broke.
	unbounded proportion
	errors    []float64 // estimate less truth
	widths    []float64 // of the intervals
	verdicts  map[result.Verdict]int
}

func intervals(ctx context.Context, o options, c *campaign) (report, error) {
	const designs = 2
	c.planned = designs * o.pick(2, 12)
	found := map[string]*estimates{}
	rates, less := plantedRates()
	delays, more := plantedDelays()
	runs, err := c.repeat(ctx, func(number int) error {
		d, effects := rates, less
		if number%designs == 1 {
			d, effects = delays, more
		}
		k, err := c.run(ctx, d, number/designs, nil)
		if err != nil {
			return err
		}
		r, err := k.judge(d)
		if err != nil {
			return err
		}
		for _, planted := range effects {
			if found[planted.label] == nil {
				found[planted.label] = &estimates{verdicts: map[result.Verdict]int{}}
			}
			found[planted.label].add(planted, r)
		}
		return nil
	})
	out := table{head: []string{"planted", "95 % intervals that cover it", "error of the estimate: mean, standard deviation", "width of the interval", "verdicts"}}
	var covers, unbounded proportion
	none := 0
	for _, planted := range append(less, more...) {
		f := found[planted.label]
		if f == nil {
			continue
		}
		mean, standardError := meanAndError(f.errors)
		deviation := standardError * math.Sqrt(float64(len(f.errors)))
		width, _ := meanAndError(f.widths)
		show := func(v float64) string {
			if planted.ratio > 0 {
				return fmt.Sprintf("%.2f %%", 100*v)
			}
			return fmt.Sprintf("%.1f µs", 1e6*v)
		}
		covers.k += f.covers.k
		covers.n += f.covers.n
		none += f.none
		unbounded.k += f.unbounded.k
		unbounded.n += f.unbounded.n
		out.add(planted.label, fmt.Sprintf("%d of %d", f.covers.k, f.covers.n), show(mean)+", "+show(deviation), show(width), counts(f.verdicts))
	}
	out.add("all", covers.String(), "", "", "")
	return report{
		text: []string{
			fmt.Sprintf("%d runs of 8 blocks: six hops that carry less than the 50 Mbit/s of the baseline, and six wires on which a round trip is longer than the 2 ms of the baseline. What was planted is the setting of the link emulator.", runs),
			fmt.Sprintf("At least 93 %% of the intervals must cover: %s. %d of %d have no end on one side, because trials broke, and %d effects have none, because too many trials are missing.", reached(float64(covers.k) >= 0.93*float64(covers.n)), unbounded.k, unbounded.n, none),
		},
		tables: []table{out},
	}, err
}

func (f *estimates) add(planted effect, r *result.Result) {
	for _, e := range r.Costs {
		if e.Path != planted.path || e.Metric != planted.metric {
			continue
		}
		f.verdicts[e.Verdict]++
		truth, estimate, low, high := planted.ratio, e.Ratio, e.Low, e.High
		if planted.ratio == 0 {
			truth, estimate, low, high = planted.difference, e.Difference, e.DifferenceLow, e.DifferenceHigh
		}
		if low == nil && !e.LowUnbounded || high == nil && !e.HighUnbounded {
			f.none++
			continue
		}
		// Trials that broke leave an interval, or the estimate, without an end.
		f.covers.count((e.LowUnbounded || low != nil && *low <= truth) && (e.HighUnbounded || high != nil && truth <= *high))
		f.unbounded.count(e.LowUnbounded || e.HighUnbounded)
		if !e.EstimateUnbounded {
			f.errors = append(f.errors, estimate-truth)
		}
		if low != nil && high != nil {
			f.widths = append(f.widths, *high-*low)
		}
	}
}
