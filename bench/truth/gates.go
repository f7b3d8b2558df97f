package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// sighting is what became of the trials with one fault.
type sighting struct {
	caught, asWanted proportion
	codes            map[string]int
}

func gates(ctx context.Context, o options, c *campaign) (report, error) {
	designs := slices.DeleteFunc(allFaults(), func(f faults) bool { return !o.only.MatchString(f.design.name) })
	return plantFaults(ctx, c, designs, o.pick(2, 10), "Faults are planted in every trial of a path: with nftables and routes in its router, with queues and MTUs that are not the planned ones, with programs that burn every CPU, with a socket that has no room, with another run on the machine, by killing and stopping processes of the lab, and by changing what passes between agents and their coordinator.")
}

// plantFaults measures designs with their faults, so many blocks of each, and says what the gates
// made of them.
func plantFaults(ctx context.Context, c *campaign, designs []faults, blocks int, how string) (report, error) {
	type turn struct {
		of     faults
		number int
	}
	var all []turn
	for _, f := range designs {
		f.design.blocks = blocks
		runs := 1
		if f.most > 0 {
			f.design.blocks = min(blocks, f.most)
			runs = (blocks + f.most - 1) / f.most
		}
		for number := range runs {
			all = append(all, turn{f, number})
		}
	}
	c.planned = len(all)
	found := map[string]*sighting{}
	var shams proportion
	reasons := map[string]int{}
	_, err := c.repeat(ctx, func(number int) error {
		f, number := all[number].of, all[number].number
		k, err := c.run(ctx, f.design, number, f.plant)
		if err != nil {
			return err
		}
		for _, t := range k.trials {
			if t.Path == sham && t.Test != "small-buffer" {
				shams.count(!t.Gate.Passed)
				if !t.Gate.Passed {
					reasons[fatal(t)]++
				}
			}
			for _, one := range f.faults {
				if t.Path == one.path && t.Test == one.test {
					if found[one.label] == nil {
						found[one.label] = &sighting{codes: map[string]int{}}
					}
					found[one.label].add(t, one)
				}
			}
		}
		return nil
	})
	out := table{head: []string{"planted", "caught", "wanted", "as wanted", "found"}}
	every := true
	for _, f := range designs {
		for _, one := range f.faults {
			if s := found[one.label]; s != nil {
				out.add(one.label, fmt.Sprintf("%d of %d", s.caught.k, s.caught.n), string(one.want), fmt.Sprintf("%d of %d", s.asWanted.k, s.asWanted.n), counts(s.codes))
				every = every && s.asWanted.k == s.asWanted.n
			}
		}
	}
	text := []string{
		how + " *Broken* is an outcome of the path, *missing* a fault of the instrument, *warned* a trial that counts with a finding, *measured* one that counts and whose metrics show the fault.",
		fmt.Sprintf("Every planted fault must be caught as what it is: %s. Trials next to them without a fault that were excluded: %s: %s.", reached(every), shams, reached(shams.k == 0)),
	}
	if shams.k > 0 {
		text = append(text, "They were excluded for: "+counts(reasons)+".")
	}
	return report{text: text, tables: []table{out}}, err
}

// plant plants the fault of a trial, if it has one.
func (f faults) plant(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
	for _, one := range f.faults {
		if one.plant != nil && t.Path == one.path && t.Test == one.test {
			return one.plant(ctx, b, t)
		}
	}
	return nil, nil
}

func (s *sighting) add(t measurement.Trial, planted fault) {
	asWanted := planted.asWanted(t)
	s.caught.count(asWanted || !t.Gate.Passed || len(t.Gate.Findings) > 0)
	s.asWanted.count(asWanted)
	var codes []string
	for _, f := range t.Gate.Findings {
		if f.Fatal || slices.Contains(planted.codes, f.Code) {
			codes = append(codes, string(f.Code))
		}
	}
	slices.Sort(codes)
	if len(codes) > 0 {
		s.codes[strings.Join(slices.Compact(codes), " and ")]++
	}
}
