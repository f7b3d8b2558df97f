package runner

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
)

// VariationTrials is how often a test is done again with one thing changed: medians are
// compared.
const VariationTrials = 3

// explaining does the trials of a plan, and then again, with one thing changed, the tests
// of which it cannot be told what limited them. What is learned so may leave more to ask;
// each thing of a test is changed once at most.
type explaining struct {
	fixed      // the plan's trials, then those of the variations
	planned    int
	subject    subject
	trials     []measurement.Trial // of the plan, of those tests that may be varied
	variations []result.Variation
	chosen     func([]result.Variation)
	over       bool
}

// Explaining is Fixed, followed by the trials that tell what limits the tests. Varied are
// those that were kept before. Chosen hears of all variations, before the first trial of
// a further one.
func Explaining(head store.Head, plan experiment.Plan, varied []measurement.Trial, chosen func([]result.Variation)) (Planner, error) {
	s, err := subjectOf(head)
	if err != nil {
		return nil, err
	}
	x := &explaining{fixed: fixed{trials: slices.Clone(plan.Trials), done: map[string]bool{}}, planned: len(plan.Trials), subject: s, chosen: chosen}
	x.vary(head.Variations)
	for _, t := range varied {
		x.Done(t, nil)
	}
	return x, nil
}

// Next is the next trial of the plan, or of a variation.
func (x *explaining) Next() (experiment.PlannedTrial, bool) {
	next, ok := x.fixed.Next()
	if ok || x.over {
		return next, ok
	}
	options := x.subject.options
	options.Variations = x.variations
	further := analysis.Vary(x.trials, x.subject.tests, x.subject.paths, options)
	if x.over = len(further) == 0; x.over {
		return next, false
	}
	x.vary(further)
	x.chosen(x.withoutTrials())
	return x.fixed.Next()
}

// vary plans the trials of further variations, those on one path one after the other:
// switching paths may take long.
func (x *explaining) vary(further []result.Variation) {
	first := len(x.variations)
	for _, v := range further {
		v.Trials = nil
		x.variations = append(x.variations, v)
	}
	for i, v := range x.variations[first:] {
		for n := range VariationTrials {
			p := experiment.PlannedTrial{
				ID:    fmt.Sprintf("v%02d-%s-%s", n+1, v.Path, v.Test.Name),
				Order: -(1 + (first+i)*VariationTrials + n), Path: v.Path, Test: v.Test.Name, Spec: v.Test.Spec,
			}
			if x.planned > 0 {
				p.Rest = x.fixed.trials[0].Rest
			}
			x.fixed.trials = append(x.fixed.trials, p)
		}
	}
}

// Done hears of a trial of the plan, or of a variation.
func (x *explaining) Done(t measurement.Trial, err error) {
	x.fixed.Done(t, err)
	if v := variationOf(x.variations, t); v != nil {
		v.Trials = append(v.Trials, t)
	} else if len(t.Flows) > 0 {
		x.trials = append(x.trials, t)
	}
}

// Again has trials of the plan, or of variations, done again.
func (x *explaining) Again(ids []string, last bool) {
	x.fixed.Again(ids, last)
	x.trials = slices.DeleteFunc(x.trials, func(t measurement.Trial) bool { return slices.Contains(ids, t.ID) })
}

func (x *explaining) withoutTrials() []result.Variation {
	out := slices.Clone(x.variations)
	for i := range out {
		out[i].Trials = nil
	}
	return out
}

// variationOf is the variation that a trial is of, nil for one of the plan.
func variationOf(all []result.Variation, t measurement.Trial) *result.Variation {
	i := slices.IndexFunc(all, func(v result.Variation) bool { return t.Order < 0 && v.Path == t.Path && v.Test.Name == t.Test })
	if i < 0 {
		return nil
	}
	return &all[i]
}
