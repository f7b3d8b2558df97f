package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hopbench/hopbench/internal/result"
)

// harmful is a path that does harm to a metric, with its baseline, and must
// never be called a path without cost.
type harmful struct {
	harm           string
	baseline, path string
	metric         string
}

// harms is a design whose runs have several of them.
type harms struct {
	design design
	harm   []harmful
	plant  func(run *rand.Rand) planter
}

func allHarms() []harms {
	const router = "{type: link, delay: 500us}, {type: router, name: hop, rate: 50Mbit"
	return []harms{
		{
			design: design{name: "loss", blocks: 10,
				paths: []path{{"clean", router + "}"}, {"loses-3", router + ", loss: 3%}"}, {"loses-half", router + ", loss: 0.5%}"}},
				tests: []test{{"udp", "kind: udp, rate: 30Mbit, duration: 300ms, max_warmup: 20ms"}},
			},
			harm: []harmful{{"loses 3 %", "clean", "loses-3", "loss_fraction"}, {"loses 0.5 %", "clean", "loses-half", "loss_fraction"}},
		},
		{
			design: design{name: "delay", blocks: 10,
				paths: []path{{"rtt-30", "{type: link, delay: 15ms}"}, {"rtt-31", "{type: link, delay: 15.5ms}"}, {"rtt-100", "{type: link, delay: 50ms}"}, {"rtt-104", "{type: link, delay: 52ms}"}},
				tests: []test{{"rr", "kind: rr, protocol: udp, in_flight: 8, duration: 300ms, max_warmup: 20ms"}},
			},
			harm: []harmful{{"+1 ms on 30 ms", "rtt-30", "rtt-31", "rtt_p50_seconds"}, {"+4 ms on 100 ms", "rtt-100", "rtt-104", "rtt_p50_seconds"}},
		},
		{
			design: design{name: "breaks", blocks: 10,
				paths: []path{{"sound", router + "}"}, {"breaks", router + "}"}},
				tests: []test{{"tcp", "kind: tcp, flows: 2, duration: 300ms, max_warmup: 100ms"}},
			},
			harm: []harmful{{"resets connections in a fifth of its trials", "sound", "breaks", "goodput_bits_per_second"}},
			plant: func(run *rand.Rand) planter {
				return on("breaks", chosen(run.Perm(10)[:2]), rules(resetAfter(1e6)))
			},
		},
		{
			design: design{name: "collapses", blocks: 12,
				paths: []path{{"sound", router + "}"}, {"collapses", router + "}"}},
				tests: []test{{"tcp", "kind: tcp, duration: 300ms, max_warmup: 100ms"}},
			},
			harm: []harmful{{"collapses in one of twelve trials", "sound", "collapses", "goodput_bits_per_second"}},
			plant: func(run *rand.Rand) planter {
				return on("collapses", chosen([]int{run.IntN(12)}), rules(slowedTo(300_000)))
			},
		},
	}
}

// chosen says of blocks, counted from 1, whether they are among those counted
// from 0.
func chosen(from0 []int) func(block int) bool {
	return func(block int) bool { return slices.Contains(from0, block-1) }
}

// outcome is what the runs said of one harm.
type outcome struct {
	// free counts the runs in which the metric that was harmed is no-cost, or is
	// not compared while all that is says so. Worse counts those in which some
	// comparison says that the path is worse.
	free, worse proportion
	// excluded are the trials of the path that a gate excluded.
	excluded proportion
	verdicts map[string]int
}

func never(ctx context.Context, o options, c *campaign) (report, error) {
	runs := o.pick(3, 20)
	all := allHarms()
	c.planned = runs * len(all)
	found := map[string]*outcome{}
	_, err := c.repeat(ctx, func(number int) error {
		// All harms in turn, so that a run that is cut short has some of each.
		h, number := all[number%len(all)], number/len(all)
		var plant planter
		if h.plant != nil {
			plant = h.plant(rand.New(rand.NewPCG(o.seed, uint64(number))))
		}
		k, err := c.run(ctx, h.design, number, plant)
		if err != nil {
			return err
		}
		for _, one := range h.harm {
			r, err := k.judge(h.design.pair(one.baseline, one.path))
			if err != nil {
				return err
			}
			if found[one.harm] == nil {
				found[one.harm] = &outcome{verdicts: map[string]int{}}
			}
			found[one.harm].add(r, one)
		}
		return nil
	})
	out := table{head: []string{"the path", "*no cost* on what is harmed", "said to be worse", "its trials that a gate excluded", "verdicts"}}
	sound := true
	for _, h := range all {
		for _, one := range h.harm {
			if f := found[one.harm]; f != nil {
				out.add(one.harm, f.free.String(), f.worse.String(), fmt.Sprintf("%d of %d", f.excluded.k, f.excluded.n), counts(f.verdicts))
				sound = sound && f.free.k == 0
			}
		}
	}
	return report{
		text: []string{
			"Each run is an experiment of its own with 10 blocks (12 where one trial collapses), in a lab of its own. Faults of single trials are put into the router of the path with nftables, in trials that the seed chooses.",
			fmt.Sprintf("*No cost* must be said of none: %s.", reached(sound)),
		},
		tables: []table{out},
	}, err
}

func (f *outcome) add(r *result.Result, h harmful) {
	for _, t := range r.Trials {
		if t.Path == h.path {
			f.excluded.count(!t.Gate.Passed)
		}
	}
	free, worse, compared := false, false, false
	for _, e := range r.Costs {
		if e.Metric == h.metric {
			compared, free = true, e.Verdict == result.NoCost
		} else if !compared {
			free = free || e.Verdict == result.NoCost
		}
		worse = worse || says(e)
		if e.Primary || e.Metric == h.metric {
			f.verdicts[string(e.Verdict)+" on "+e.Metric]++
		}
	}
	f.free.count(free && (compared || !worse))
	f.worse.count(worse)
}

// says says whether an effect tells that the path is worse than its baseline.
func says(e result.Effect) bool { return e.Verdict == result.Costs || e.Verdict == result.Breaks }
