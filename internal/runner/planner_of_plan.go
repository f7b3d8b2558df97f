package runner

import (
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// fixed is the planner of a plan that was made before.
type fixed struct {
	trials []experiment.PlannedTrial
	done   map[string]bool
}

// Fixed does the trials of a plan in their order.
func Fixed(plan experiment.Plan) Planner {
	return &fixed{trials: slices.Clone(plan.Trials), done: map[string]bool{}}
}

func (f *fixed) Next() (experiment.PlannedTrial, bool) {
	if left := f.Left(); len(left) > 0 {
		return left[0], true
	}
	return experiment.PlannedTrial{}, false
}

func (f *fixed) Done(t measurement.Trial, _ error) { f.done[t.ID] = true }

// Again has trials done again, in their turn or at the end of their blocks.
func (f *fixed) Again(ids []string, last bool) {
	for _, id := range ids {
		delete(f.done, id)
		at := slices.IndexFunc(f.trials, func(p experiment.PlannedTrial) bool { return p.ID == id })
		if !last || at < 0 {
			continue
		}
		t := f.trials[at]
		f.trials = slices.Delete(f.trials, at, at+1)
		for at < len(f.trials) && f.trials[at].Block == t.Block {
			at++
		}
		f.trials = slices.Insert(f.trials, at, t)
	}
}

func (f *fixed) Left() (left []experiment.PlannedTrial) {
	for _, t := range f.trials {
		if !f.done[t.ID] {
			left = append(left, t)
		}
	}
	return left
}
