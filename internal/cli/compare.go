package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

const (
	// maxRuns is how many runs have a letter.
	maxRuns = 26
)

// What --fail-on may name.
const (
	failOnCost          = "cost"
	failOnPublished     = "published"
	failOnNotShownEqual = "not-shown-equal"
)

type compareFlags struct {
	reference []string
	published []string
	failOn    []string
	json      bool
	markdown  bool
	watched   live.Flags
}

func compareCommand(s base.Streams) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare RUN [RUN…]",
		Short: "Compare a run with published figures, or runs with each other",
		Long: `compare compares one run with the published figures of its experiment, and
each further run with the first. It shows how much the cost of a path has changed, per
test and metric, with a 95 % interval and a verdict.

It compares costs, not levels: a cost is measured within the blocks of a run, so
effects on the whole run, such as a busy hour, cancel. Runs of a single path
have only a level, and two of them get no verdict. With three or more runs on each side
(--reference) each run is one reading, and the interval includes the variation
between runs.

RUN is a run folder or a result.json. --published chooses rows: figures of the
experiment by their row (E5.2), or any published row together with
the path and test to compare it with (E1.3=direct/flows-1).

The exit status is 0 after a comparison, 1 if something failed, 2 if the command
line or a file is wrong, and 3 if --fail-on found something. "cost" means a primary
metric that is worse than in the reference, beyond chance and by at least the
smallest effect that matters; "not-shown-equal" one that is not shown to be as
good, possibly for lack of blocks, or because a run lacks a path, a test, or all
trials or a primary metric of one; "published" a figure outside its tolerance.`,
		Example: `  hopbench compare hopbench-runs/2026-11-21T09-30-00-routing-appliance
  hopbench compare before/ after/ --fail-on cost
  hopbench compare --reference old1,old2,old3 new1 new2 new3 --fail-on not-shown-equal
  hopbench compare RUN --published E5.2,E5.3 --markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args)+len(f.reference) > maxRuns {
				return base.Usage(fmt.Errorf("hopbench compare needs 1 to %d runs; see hopbench compare --help", maxRuns))
			}
			return nil
		},
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			return f.watched.Follow(c.Context(), &s, f.json, "comparison of "+strings.Join(slices.Concat(f.reference, args), ", "), func(tell live.Steps) error {
				return compareRuns(c.Context(), s, f, args, tell)
			})
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.reference, "reference", nil, "three or more runs that the others, together, are compared with")
	flags.StringSliceVar(&f.published, "published", nil, "published rows to compare each run with: ROW, or ROW=PATH/TEST")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "exit with status 3 on: cost, not-shown-equal, published")
	flags.BoolVarP(&f.json, "json", "J", false, "print one JSON document on standard output and nothing else there")
	flags.BoolVar(&f.markdown, "markdown", false, "print Markdown")
	f.watched.DefineEvents(flags)
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	base.Complete(c, "published", completeRows)
	base.Complete(c, "fail-on", base.ListOf(failOnCost, failOnNotShownEqual, failOnPublished))
	base.Complete(c, "reference", completeRuns)
	return c
}

func compareRuns(ctx context.Context, s base.Streams, f compareFlags, args []string, tell live.Steps) error {
	if err := f.check(len(args)); err != nil {
		return base.Usage(err)
	}
	comparison, err := f.comparison(ctx, args, tell)
	if err != nil {
		return err
	}
	if err := f.print(s, comparison); err != nil {
		return err
	}
	return f.verdict(s, comparison, tell)
}

// comparison compares the runs.
func (f compareFlags) comparison(ctx context.Context, args []string, tell live.Steps) (*result.Comparison, error) {
	data, err := publishedData()
	if err != nil {
		return nil, err
	}
	comparison := &result.Comparison{Format: result.ComparisonFormat}
	var all []analysis.LabelledRun
	named := slices.Concat(f.reference, args)
	for i, arg := range named {
		r, err := runs.Load(ctx, arg)
		if err != nil {
			return nil, err
		}
		// One run twice would say that runs hardly differ.
		again := func(other analysis.LabelledRun) bool {
			return other.Result.Started.Equal(r.Started) && other.Result.Seed == r.Seed
		}
		if j := slices.IndexFunc(all, again); j >= 0 && len(f.reference) > 0 {
			return nil, base.Usage(fmt.Errorf("%s and %s are the same run; --reference compares groups of different runs", named[j], arg))
		}
		tell.Note("%s read", arg)
		run := analysis.LabelledRun{Label: string(rune('A' + i)), Result: r}
		all = append(all, run)
		if i == 0 {
			comparison.Paths, comparison.Tests = result.PathTitles(r.Paths), result.TestTitles(r.Tests)
		} else {
			comparison.Notes = append(comparison.Notes, analysis.Differences(all[0], run)...)
		}
		compared := comparedRun(run, arg)
		// Runs against each other are the matter when there are several; the
		// published figures then only by wish.
		if len(args) == 1 && len(f.reference) == 0 || len(f.published) > 0 {
			figures, err := chooseFigures(r, data, f.published)
			if err != nil {
				return nil, base.Usage(fmt.Errorf("%s: %w", arg, err))
			}
			compared.Published = analysis.ComparePublished(run.Result, figures)
			for _, note := range readingsNotes(data, figures) {
				if !slices.ContainsFunc(comparison.Notes, func(n result.Note) bool { return n.Name == note.Name }) {
					comparison.Notes = append(comparison.Notes, note)
				}
			}
		}
		comparison.Runs = append(comparison.Runs, compared)
	}
	if len(all) > 1 {
		reference, sides := f.sides(all)
		options := analysis.DefaultOptions()
		options.Matters = all[0].Result.Experiment.Matters
		options.Lab = !slices.ContainsFunc(all, func(r analysis.LabelledRun) bool { return r.Result.Testbed.Kind != result.TestbedLab })
		changes, notes := analysis.CompareRuns(reference, sides, options)
		// What is missed is what not-shown-equal asks for, be it all there is.
		missed := slices.Contains(f.failOn, failOnNotShownEqual) && slices.ContainsFunc(notes, result.Note.LeavesOut)
		if len(changes) == 0 && !missed {
			why := ""
			for _, n := range notes {
				why += "; " + strings.TrimSuffix(words.NamesOf(comparison.Paths, comparison.Tests).Note(n), ".")
			}
			return nil, base.Usage(fmt.Errorf("%s have no test on any path in common that can be compared%s", strings.Join(named, " and "), why))
		}
		comparison.Changes = changes
		comparison.Notes = append(comparison.Notes, notes...)
	}
	return comparison, nil
}

// sides are the run, or the runs, that others are compared with, and these.
func (f compareFlags) sides(runs []analysis.LabelledRun) (analysis.Side, []analysis.Side) {
	together := func(runs []analysis.LabelledRun) (side analysis.Side) {
		side.Label = runs[0].Label
		if len(runs) > 1 {
			side.Label += "–" + runs[len(runs)-1].Label
		}
		for _, run := range runs {
			side.Runs = append(side.Runs, run.Result)
		}
		return side
	}
	if n := len(f.reference); n > 0 {
		return together(runs[:n]), []analysis.Side{together(runs[n:])}
	}
	var sides []analysis.Side
	for _, run := range runs[1:] {
		sides = append(sides, together([]analysis.LabelledRun{run}))
	}
	return together(runs[:1]), sides
}

// check finds what the flags cannot mean together.
func (f compareFlags) check(runs int) error {
	if n := len(f.reference); n > 0 && (n < analysis.FewestRuns || runs < analysis.FewestRuns) {
		return fmt.Errorf("--reference compares groups of runs, of at least %d each, since fewer do not show how much runs differ by themselves; here are %d and %d", analysis.FewestRuns, n, runs)
	}
	runs += len(f.reference)
	for _, what := range f.failOn {
		switch {
		case what != failOnCost && what != failOnPublished && what != failOnNotShownEqual:
			return fmt.Errorf("--fail-on cannot be %q; it is %s, %s or %s", what, failOnCost, failOnNotShownEqual, failOnPublished)
		case what != failOnPublished && runs < 2:
			return fmt.Errorf("--fail-on %s compares runs; name a second one", what)
		case what == failOnPublished && runs > 1 && len(f.published) == 0:
			return fmt.Errorf("--fail-on %s of several runs needs --published", failOnPublished)
		}
	}
	return nil
}

func (f compareFlags) print(s base.Streams, c *result.Comparison) error {
	switch {
	case f.json:
		return data.WriteComparison(s.Out, c)
	case f.markdown:
		return markdown.WriteComparison(s.Out, c)
	}
	return terminal.WriteComparison(s.Out, c, runs.Layout(s.Out))
}

// verdict is the exit status that --fail-on asks for, with what led to it.
func (f compareFlags) verdict(s base.Streams, c *result.Comparison, tell live.Steps) error {
	var found []string
	names := words.NamesOf(c.Paths, c.Tests).Telling(c.Changes)
	if slices.Contains(f.failOn, failOnCost) || slices.Contains(f.failOn, failOnNotShownEqual) {
		for _, change := range c.Changes {
			unequal := slices.Contains(f.failOn, failOnNotShownEqual) && change.Verdict != result.NoCost && change.Verdict != result.Gains
			if change.Primary && (unequal || slices.Contains(f.failOn, failOnCost) && change.Worse()) {
				found = append(found, change.Run+" compared with "+change.ReferenceRun+": "+names.Effect(change))
			}
		}
	}
	if slices.Contains(f.failOn, failOnNotShownEqual) {
		for _, n := range c.Notes {
			if n.LeavesOut() {
				found = append(found, strings.TrimSuffix(names.Note(n), "."))
			}
		}
	}
	if slices.Contains(f.failOn, failOnPublished) {
		for _, run := range c.Runs {
			for _, p := range run.Published {
				if p.Judgement == result.Outside && p.SameConditions() {
					found = append(found, run.Label+": "+names.Published(p))
				}
			}
		}
	}
	for _, text := range found {
		tell.Tell(event.Warning, text)
		fmt.Fprintf(s.Err, "hopbench: %s\n", base.Shown(text))
	}
	if len(found) > 0 {
		return base.StatusError(base.ExitFound)
	}
	return nil
}

func comparedRun(run analysis.LabelledRun, source string) result.ComparedRun {
	r := run.Result
	out := result.ComparedRun{
		Label: run.Label, Source: source, Experiment: r.Experiment.Name, Title: r.Experiment.Title, Started: r.Started, Seed: r.Seed,
		Scale: r.Experiment.Scale, Testbed: r.Testbed, Environment: r.Environment, Trials: len(r.Trials),
	}
	out.Excluded, out.Broken = r.NotPassed()
	return out
}

// completeRuns completes run folders, those below an index included.
func completeRuns(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, below := range []string{"*", "*/*"} {
		matches, err := filepath.Glob(filepath.Join(runsFolder, below, store.FileName))
		if err != nil {
			continue // the patterns are fixed; files remain
		}
		for _, match := range matches {
			if dir := filepath.Dir(match); strings.HasPrefix(dir, typed) {
				out = append(out, dir)
			}
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}
