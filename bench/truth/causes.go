package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/bench/truth/planted"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
)

// naming is what was said of the trials with one planted cause.
type naming struct {
	right, abstained, wrong int
	said                    map[string]int
}

func (n naming) trials() int { return n.right + n.abstained + n.wrong }

func causes(ctx context.Context, o options, c *campaign) (report, error) {
	all := planted.All()
	c.planned = len(all)
	blocks := o.pick(3, 20)
	found := map[string]*naming{}
	_, err := c.repeat(ctx, func(number int) error {
		p := all[number]
		text := strings.Replace(p.ExperimentYAML, "\nblocks: 1\n", fmt.Sprintf("\nblocks: %d\n", blocks), 1)
		k, err := c.only(ctx, p.Name, text, 0, nil, func(t experiment.PlannedTrial) bool { return t.Path == p.Path })
		if err != nil {
			return err
		}
		n := &naming{said: map[string]int{}}
		for block := 1; block <= blocks; block++ {
			if err := n.add(k, p, block); err != nil {
				return err
			}
		}
		found[p.Name] = n
		return nil
	})
	out := table{head: []string{"planted", "right", "abstained", "wrong", "said"}}
	var sum naming
	every := true
	for _, p := range all {
		if n := found[p.Name]; n != nil {
			out.add(p.Name, fmt.Sprint(n.right), fmt.Sprint(n.abstained), fmt.Sprint(n.wrong), counts(n.said))
			sum.right, sum.abstained, sum.wrong = sum.right+n.right, sum.abstained+n.abstained, sum.wrong+n.wrong
			every = every && 5*n.right >= 4*n.trials()
		}
	}
	right, wrong := proportion{sum.right, sum.trials()}, proportion{sum.wrong, sum.trials()}
	out.add("all", right.String(), fmt.Sprint(sum.abstained), wrong.String(), "")
	return report{
		text: []string{
			fmt.Sprintf("What limits a test over TCP is planted in %d trials each, and each trial is judged by itself: right if a cause that was planted has at least half of the time and the hop is named where it is a hop's, abstained if none has, or it is unknown. A policer with a short queue may be called the hop's rate; where nothing is planted the ends limit.", blocks),
			fmt.Sprintf("At least 80 %% right of each: %s. At most 5 %% wrong: %s.", reached(every), reached(20*sum.wrong <= sum.trials())),
		},
		tables: []table{out},
	}, err
}

// add judges the trial of one block.
func (n *naming) add(k kept, p planted.Planted, block int) error {
	var trials []measurement.Trial
	for _, t := range k.trials {
		if t.Block == block {
			trials = append(trials, t)
		}
	}
	r, err := runner.Result(k.head, trials)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.Attributions, func(a result.Attribution) bool { return a.Path == p.Path && a.Test == p.Test })
	if i < 0 {
		n.abstained++
		n.said["excluded"]++
		return nil
	}
	a := r.Attributions[i]
	var cause result.Cause
	share := 0.0
	for _, other := range result.Causes() {
		if a.Shares[other] > share {
			cause, share = other, a.Shares[other]
		}
	}
	name := string(cause)
	if a.Hop != "" {
		name += " of " + a.Hop
	}
	switch {
	case share < 0.5:
		n.abstained++
		name = "no single cause"
	case cause == result.CauseUnknown:
		n.abstained++
	case slices.Contains(p.Want, cause) && a.Hop == p.Hop:
		n.right++
	default:
		n.wrong++
	}
	n.said[name]++
	return nil
}
