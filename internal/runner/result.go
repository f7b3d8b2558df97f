package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/survey"
)

// Prepare reads the experiment of a run's head with its overrides, and plans
// it at its scale: the same head always gives the same plan. The experiment
// itself is returned as published, not scaled.
func Prepare(head store.Head) (*experiment.Experiment, experiment.Plan, error) {
	e, plan, err := prepare(head, experiment.Load)
	if err != nil {
		return nil, plan, err
	}
	for _, t := range e.Scaled().TestInfos() { // a duration of the command line's may be none that a file could say
		if err := kind.Check(t.Spec).Err(); err != nil {
			return nil, experiment.Plan{}, fmt.Errorf("test %s: %w", t.Name, err)
		}
	}
	return e, plan, nil
}

func prepare(head store.Head, load func(file string, text []byte) (*experiment.Experiment, error)) (*experiment.Experiment, experiment.Plan, error) {
	if head.Test != nil {
		return nil, experiment.Plan{}, errors.New("this is a run of hopbench test, which cannot be resumed; repeat it with the command in its report")
	}
	e, err := load(head.File, []byte(head.Experiment))
	if err != nil {
		return nil, experiment.Plan{}, err
	}
	e, err = e.With(experiment.Overrides{Blocks: head.Blocks, Duration: head.Duration.Duration(), Full: head.Full, Quick: head.Quick, TwoStage: head.TwoStage, Matters: head.Matters})
	if err != nil {
		return nil, experiment.Plan{}, err
	}
	if head.TestbedFile != nil {
		e = e.OnHosts()
	}
	return e, e.Scaled().Plan(head.Seed), nil
}

// subject is what a run is about: what its experiment says, or its command.
type subject struct {
	info    result.ExperimentInfo
	command []string
	planned int
	paths   []result.PathInfo
	tests   []result.TestInfo
	options analysis.Options
}

func subjectOf(head store.Head) (subject, error) {
	if t := head.Test; t != nil {
		if len(t.Paths) == 0 {
			return subject{}, errors.New("read the run of hopbench test: it names no path; another hopbench made it")
		}
		options := analysis.DefaultOptions()
		options.Matters = head.Matters
		return subject{
			info:    result.ExperimentInfo{Name: head.Name, Title: t.Title, Scale: 1, Matters: head.Matters, Baseline: t.Paths[0].Name, Blocks: head.Blocks},
			command: t.Command, planned: head.Planned, paths: t.Paths, tests: t.Tests, options: options,
		}, nil
	}
	e, plan, err := prepare(head, experiment.LoadStored)
	if err != nil {
		return subject{}, fmt.Errorf("read the run's experiment: %w", err)
	}
	return subject{
		info: e.Info(), command: command(head, e), planned: len(plan.Trials),
		paths: e.PathInfos(), tests: e.Scaled().TestInfos(), options: analysisOptions(e, head.Testbed),
	}, nil
}

// Result analyses what is stored of a run, the trials of its variations among the
// others. It measures nothing, so it gives the same result whenever it is asked.
func Result(head store.Head, stored []measurement.Trial) (*result.Result, error) {
	s, err := subjectOf(head)
	if err != nil {
		return nil, err
	}
	variations, trials := slices.Clone(head.Variations), []measurement.Trial(nil)
	for _, t := range stored {
		if v := variationOf(variations, t); v != nil {
			v.Trials = append(v.Trials, t)
		} else {
			trials = append(trials, t)
		}
	}
	r := &result.Result{
		Format:      result.Format,
		Experiment:  s.info,
		Seed:        head.Seed,
		Command:     s.command,
		Testbed:     head.Testbed,
		Environment: maps.Clone(head.Environment),
		Resumed:     head.Resumed,
		Started:     head.Started,
		Ended:       head.Started,
		Complete:    len(trials) == s.planned,
		Planned:     s.planned,
		Paths:       s.paths,
		Tests:       s.tests,
		Trials:      trials,
		Variations:  variations,
		Notes:       analysis.SessionDifferences(head.Environment, head.Testbed.Endpoints, head.Resumed...),
	}
	for _, b := range head.Repeated {
		r.Notes = append(r.Notes, result.Note{Code: result.NoteRepeatedBlock, Count: b.Trials, Block: b.Block})
	}
	for _, text := range head.Notes {
		r.Notes = append(r.Notes, result.TextNote(text))
	}
	for _, t := range stored {
		if end := t.Start.Add(t.Elapsed.Duration()); end.After(r.Ended) {
			r.Ended = end
		}
	}
	if done := wholeBlocks(trials, len(s.paths)*len(s.tests)); !r.Complete && len(s.paths) > 1 {
		code := result.NoteInterim
		if head.Test != nil {
			code = result.NoteCutShort
		}
		r.Notes = append(r.Notes, result.Note{Code: code, Count: done, Of: s.info.Blocks})
	}
	analysis.Fill(r, s.options)
	if t := head.Test; t != nil && t.Profile {
		r.RFC6349 = survey.Ratings(t.BottleneckBitsPerSecond, steps(r))
	}
	return r, nil
}

// wholeBlocks counts the blocks that have so many trials.
func wholeBlocks(trials []measurement.Trial, cells int) (n int) {
	inBlock := map[int]int{}
	for _, t := range trials {
		if inBlock[t.Block]++; inBlock[t.Block] == cells {
			n++
		}
	}
	return n
}

// steps are the tests of a profile with the trials of its first block.
func steps(r *result.Result) (out []survey.Step) {
	for _, test := range r.Tests {
		i := slices.IndexFunc(r.Trials, func(t measurement.Trial) bool { return t.Test == test.Name && t.Block == 1 })
		if i >= 0 {
			out = append(out, survey.Step{Test: test, Trial: r.Trials[i]})
		}
	}
	return out
}

func analysisOptions(e *experiment.Experiment, bed result.Testbed) analysis.Options {
	o := analysis.DefaultOptions()
	o.Matters, o.Contrasts, o.Lab = e.Matters, e.Contrasts, bed.Kind == result.TestbedLab
	pairs := float64(max(e.Pairs, 1)) // a trial is all of them together
	source, destination := e.Scaled().Ends()
	o.SourceEgressBitsPerSecond, o.DestinationEgressBitsPerSecond = pairs*source.EgressBitsPerSecond, pairs*destination.EgressBitsPerSecond
	o.BackEnds, o.Rules = map[string]int{}, map[string]map[string]int{}
	for _, p := range e.Paths {
		o.Rules[p.Name] = map[string]int{}
		for _, h := range p.Hops {
			if h.Rules > 0 { // also where the file leaves them out
				o.Rules[p.Name][h.Name] = h.Rules
			}
			if h.Backends > 0 && !p.Bypasses(h) {
				o.BackEnds[p.Name] = h.Parallel()
			}
		}
	}
	if n := len(bed.Endpoints); bed.Kind == result.TestbedFleet && n > 0 { // the sources come first, and each machine has what the file says of all of its role
		o.SourceEgressBitsPerSecond = pairs * bed.Endpoints[0].EgressBitsPerSecond
		o.DestinationEgressBitsPerSecond = pairs * bed.Endpoints[n-1].EgressBitsPerSecond
		return o
	}
	for _, end := range bed.Endpoints {
		switch end.Name {
		case e.Source:
			o.SourceEgressBitsPerSecond = end.EgressBitsPerSecond
		case e.Destination:
			o.DestinationEgressBitsPerSecond = end.EgressBitsPerSecond
		}
	}
	return o
}

// Comparisons is how many primary comparisons a run of e makes.
func Comparisons(e *experiment.Experiment) int {
	return analysis.PrimaryComparisons(len(e.Comparisons()), e.TestInfos())
}

// Fits says whether trials that are stored are those of a plan.
func Fits(plan experiment.Plan, stored []measurement.Trial) error {
	planned := make(map[string]experiment.PlannedTrial, len(plan.Trials))
	for _, p := range plan.Trials {
		planned[p.ID] = p
	}
	for _, t := range stored {
		if p, ok := planned[t.ID]; !ok || p.Order != t.Order || p.Block != t.Block || p.Path != t.Path || p.Test != t.Test {
			return fmt.Errorf("trial %s is stored as number %d of the run, which this hopbench (%s) plans otherwise; continue with the hopbench that began the run, or start a new one", t.ID, t.Order, hostinfo.Version())
		}
	}
	return nil
}

// Torn are the stored trials of blocks that an interruption tore: their partners were
// never measured, and would be in another moment of the world. What the path broke stays,
// since a failure needs no partner of the same moment, and is not to be forgotten by an
// interruption. The trials of a test that are all to be done again (Options.SetAside) have
// their partners among themselves, and tear no block that was whole.
func Torn(plan experiment.Plan, stored []measurement.Trial) (ids []string, repeated []store.RepeatedBlock) {
	type part struct {
		block int
		test  string
	}
	planned, kept, last := map[part]int{}, map[part]int{}, 0
	for _, p := range plan.Trials {
		planned[part{p.Block, p.Test}]++
	}
	for _, t := range stored {
		kept[part{t.Block, t.Test}]++
		last = max(last, t.Block)
	}
	torn := map[int]bool{}
	for p, n := range planned {
		if k := kept[p]; k < n && (k > 0 || p.block == last) {
			torn[p.block] = true
		}
	}
	for _, t := range stored {
		if !torn[t.Block] || t.Gate.Broken {
			continue
		}
		ids = append(ids, t.ID)
		if n := len(repeated); n == 0 || repeated[n-1].Block != t.Block {
			repeated = append(repeated, store.RepeatedBlock{Block: t.Block})
		}
		repeated[len(repeated)-1].Trials++
	}
	return ids, repeated
}

// command is the command line that repeats a run.
func command(head store.Head, e *experiment.Experiment) []string {
	words := []string{"hopbench", "run", head.Argument, "--seed", strconv.FormatUint(head.Seed, 10), "--blocks", strconv.Itoa(e.Blocks)}
	if head.Duration > 0 {
		words = append(words, "--duration", head.Duration.Duration().String())
	}
	if head.Explain {
		words = append(words, "--explain")
	}
	if head.Full {
		words = append(words, "--full")
	}
	if head.Quick {
		words = append(words, "--quick")
	}
	if head.TestbedFile != nil {
		words = append(words, "--testbed", head.TestbedFile.Name)
	}
	if len(head.Matters) > 0 {
		words = append(words, "--matters", experiment.FormatMatters(head.Matters))
	}
	return words
}
