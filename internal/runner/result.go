package runner

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/stats"
	"github.com/hopbench/hopbench/internal/store"
)

// Prepare reads the experiment of a run's head with its overrides, and plans
// it at its scale: the same head always gives the same plan. The experiment
// itself is returned as published, not scaled.
func Prepare(head store.Head) (*experiment.Experiment, experiment.Plan, error) {
	return prepare(head, experiment.Load)
}

func prepare(head store.Head, load func(file string, text []byte) (*experiment.Experiment, error)) (*experiment.Experiment, experiment.Plan, error) {
	e, err := load(head.File, []byte(head.Experiment))
	if err != nil {
		return nil, experiment.Plan{}, err
	}
	e, err = e.With(experiment.Overrides{Blocks: head.Blocks, Duration: head.Duration.Duration(), Full: head.Full, Quick: head.Quick})
	if err != nil {
		return nil, experiment.Plan{}, err
	}
	return e, e.Scaled().Plan(head.Seed), nil
}

// Result analyses what is stored of a run. It measures nothing, so it gives
// the same result whenever it is asked.
func Result(head store.Head, trials []measurement.Trial) (*measurement.Result, error) {
	e, plan, err := prepare(head, experiment.LoadStored)
	if err != nil {
		return nil, fmt.Errorf("read the run's experiment: %w", err)
	}
	r := &measurement.Result{
		Format:      measurement.ResultFormat,
		Experiment:  e.Info(),
		Seed:        head.Seed,
		Command:     command(head, e),
		Testbed:     head.Testbed,
		Environment: maps.Clone(head.Environment),
		Resumed:     head.Resumed,
		Started:     head.Started,
		Ended:       head.Started,
		Complete:    len(trials) == len(plan.Trials),
		Planned:     len(plan.Trials),
		Paths:       e.PathInfos(),
		Tests:       e.Scaled().TestInfos(),
		Trials:      trials,
		Notes:       append(stats.SessionDifferences(head.Environment, head.Resumed...), head.Notes...),
	}
	for _, t := range trials {
		if end := t.Start.Add(t.Elapsed.Duration()); end.After(r.Ended) {
			r.Ended = end
		}
	}
	a := stats.Analyse(trials, r.Tests, r.Paths, analysisOptions(e))
	r.Cells, r.Costs, r.Attributions = a.Cells, a.Costs, a.Attributions
	r.Notes = append(r.Notes, a.Notes...)
	r.Held = stats.HoldPublished(r, r.Experiment.Published)
	return r, nil
}

func analysisOptions(e *experiment.Experiment) stats.Options {
	o := stats.DefaultOptions()
	pairs := float64(max(e.Pairs, 1)) // a trial is all of them together
	for _, end := range e.Scaled().Endpoints {
		switch end.Name {
		case e.Source:
			o.SourceEgressBitsPerSecond = pairs * end.EgressBitsPerSecond
		case e.Destination:
			o.DestinationEgressBitsPerSecond = pairs * end.EgressBitsPerSecond
		}
	}
	return o
}

// Fits says whether trials that are stored are those of a plan.
func Fits(plan experiment.Plan, stored []measurement.Trial) error {
	planned := make(map[string]experiment.PlannedTrial, len(plan.Trials))
	for _, p := range plan.Trials {
		planned[p.ID] = p
	}
	for _, t := range stored {
		if p, ok := planned[t.ID]; !ok || p.Order != t.Order || p.Block != t.Block || p.Path != t.Path || p.Test != t.Test {
			return fmt.Errorf("trial %s is stored as number %d of the run, which this hopbench (%s) plans otherwise; go on with the hopbench that began the run, or start a new one", t.ID, t.Order, Version())
		}
	}
	return nil
}

// command is the command line that repeats a run.
func command(head store.Head, e *experiment.Experiment) []string {
	words := []string{"hopbench", "run", head.Argument, "--seed", strconv.FormatUint(head.Seed, 10), "--blocks", strconv.Itoa(e.Blocks)}
	if head.Duration > 0 {
		words = append(words, "--duration", head.Duration.Duration().String())
	}
	if head.Full {
		words = append(words, "--full")
	}
	if head.Quick {
		words = append(words, "--quick")
	}
	return words
}
