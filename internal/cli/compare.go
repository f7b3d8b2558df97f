package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
)

const (
	// maxResultBytes bounds a result.json that is read.
	maxResultBytes = 1 << 30
	// maxRuns is how many runs have a letter.
	maxRuns = 26
)

// What --fail-on may name.
const (
	failOnCost      = "cost"
	failOnPublished = "published"
)

type compareFlags struct {
	published []string
	failOn    []string
	json      bool
	markdown  bool
}

func compareCommand(s streams) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare RUN [RUN…]",
		Short: "Hold a run against published figures, or runs against each other",
		Long: `compare holds one run against the published figures of its experiment, and
each further run against the first: per path, test and metric the ratio with a
95 % interval and a verdict.

RUN is a run folder or a result.json. --published chooses rows: of the
experiment's own figures by their row (E5.2), or of any published row by saying
what it is to be held against (E1.3=direct/flows-1).

The exit status is 0 when compared, 1 when something failed, 2 when the command
line or a file is wrong, and 3 when --fail-on found something: "cost" a primary
metric that is worse than in the first run beyond chance and by at least the
smallest effect that matters, "published" a figure outside of its tolerance.`,
		Example: `  hopbench compare hopbench-runs/2026-11-21T09-30-00-routing-appliance
  hopbench compare before/ after/ --fail-on cost
  hopbench compare RUN --published E5.2,E5.3 --markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > maxRuns {
				return usageError{fmt.Errorf("hopbench compare needs 1 to %d runs; see hopbench compare --help", maxRuns)}
			}
			return nil
		},
		ValidArgsFunction: completeRuns,
		RunE:              func(c *cobra.Command, args []string) error { return compareRuns(c.Context(), s, f, args) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.published, "published", nil, "published rows to hold each run against: ROW, or ROW=PATH/TEST")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "exit with status 3 on: cost, published")
	flags.BoolVarP(&f.json, "json", "J", false, "print one JSON document on standard output and nothing else there")
	flags.BoolVar(&f.markdown, "markdown", false, "print Markdown")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	for flag, complete := range map[string]cobra.CompletionFunc{"published": completeRows, "fail-on": oneOf(failOnCost, failOnPublished)} {
		if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // there is no such flag: a mistake above
		}
	}
	return c
}

func compareRuns(ctx context.Context, s streams, f compareFlags, args []string) error {
	if err := f.check(len(args)); err != nil {
		return usageError{err}
	}
	data, err := publishedData()
	if err != nil {
		return err
	}
	comparison := &result.Comparison{Format: result.ComparisonFormat}
	var first analysis.LabelledRun
	for i, arg := range args {
		result, err := loadResult(ctx, arg)
		if err != nil {
			return err
		}
		run := analysis.LabelledRun{Label: string(rune('A' + i)), Result: result}
		if i == 0 {
			first = run
		}
		compared := comparedRun(run, arg)
		// Runs against each other are the matter when there are several; the
		// published figures then only by wish.
		if len(args) == 1 || len(f.published) > 0 {
			figures, err := chooseFigures(result, data, f.published)
			if err != nil {
				return usageError{fmt.Errorf("%s: %w", arg, err)}
			}
			compared.Held = analysis.HoldPublished(result, figures)
			for _, note := range readingsNotes(data, figures) {
				if !slices.Contains(comparison.Notes, note) {
					comparison.Notes = append(comparison.Notes, note)
				}
			}
		}
		comparison.Runs = append(comparison.Runs, compared)
		if i == 0 {
			continue
		}
		changes, notes := analysis.CompareRuns(first, run, analysis.DefaultOptions())
		if len(changes) == 0 {
			return usageError{fmt.Errorf("%s and %s have no test on any path in common", args[0], arg)}
		}
		comparison.Changes = append(comparison.Changes, changes...)
		comparison.Notes = append(comparison.Notes, append(analysis.Differences(first, run), notes...)...)
	}
	if err := f.print(s, comparison); err != nil {
		return err
	}
	return f.verdict(s, comparison)
}

// check finds what the flags cannot mean together.
func (f compareFlags) check(runs int) error {
	for _, what := range f.failOn {
		switch {
		case what != failOnCost && what != failOnPublished:
			return fmt.Errorf("--fail-on cannot be %q; it is %s, %s or both", what, failOnCost, failOnPublished)
		case what == failOnCost && runs < 2:
			return fmt.Errorf("--fail-on %s compares runs; name a second one", failOnCost)
		case what == failOnPublished && runs > 1 && len(f.published) == 0:
			return fmt.Errorf("--fail-on %s of several runs needs --published", failOnPublished)
		}
	}
	return nil
}

func (f compareFlags) print(s streams, c *result.Comparison) error {
	switch {
	case f.json:
		return report.ComparisonJSON(s.out, c)
	case f.markdown:
		return report.ComparisonMarkdown(s.out, c)
	}
	colour := isTerminal(s.out) && os.Getenv("NO_COLOR") == ""
	return report.ComparisonTerminal(s.out, c, report.Options{Width: terminalWidth(s.out), Colour: colour})
}

// verdict is the exit status that --fail-on asks for, with what led to it.
func (f compareFlags) verdict(s streams, c *result.Comparison) error {
	var found []string
	if slices.Contains(f.failOn, failOnCost) {
		for _, change := range c.Changes {
			if change.Primary && change.Worse() {
				found = append(found, change.Run+" against "+change.Reference+": "+change.Sentence)
			}
		}
	}
	if slices.Contains(f.failOn, failOnPublished) {
		for _, run := range c.Runs {
			for _, h := range run.Held {
				if h.Judgement == result.Outside {
					found = append(found, run.Label+": "+h.Sentence)
				}
			}
		}
	}
	for _, text := range found {
		fmt.Fprintf(s.err, "hopbench: %s\n", shown(text))
	}
	if len(found) > 0 {
		return statusError(exitFound)
	}
	return nil
}

// loadResult reads a run from its folder, from the stored trials if they are
// there, or from a result.json.
func loadResult(ctx context.Context, arg string) (_ *result.Result, err error) {
	path := arg
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		st, err := store.Open(arg)
		if err == nil {
			return storedResult(ctx, st)
		}
		path = filepath.Join(arg, "result.json")
		if _, missing := os.Stat(path); missing != nil || !errors.Is(err, store.ErrNoRun) {
			return nil, usageError{fmt.Errorf("%w; hopbench results lists the runs here", err)}
		}
	}
	text, err := readBounded(path, maxResultBytes)
	if err != nil {
		return nil, usageError{fmt.Errorf("read the run: %w", err)}
	}
	var result result.Result
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, usageError{fmt.Errorf("read %s: it is no result.json: %w", path, err)}
	}
	if result.Format != result.Format {
		return nil, usageError{fmt.Errorf("%s is of format %q, not %s", path, result.Format, result.Format)}
	}
	return &result, nil
}

func storedResult(ctx context.Context, st *store.Store) (_ *result.Result, err error) {
	defer func() { err = errors.Join(err, st.Close()) }()
	head, err := st.Head()
	if err != nil {
		return nil, err
	}
	trials, err := st.Trials(ctx)
	if err != nil {
		return nil, err
	}
	return runner.Result(head, trials)
}

func comparedRun(run analysis.LabelledRun, source string) result.ComparedRun {
	r := run.Result
	out := result.ComparedRun{
		Label: run.Label, Source: source, Experiment: r.Experiment.Name, Title: r.Experiment.Title, Started: r.Started, Seed: r.Seed,
		Scale: r.Experiment.Scale, Testbed: r.Testbed, Environment: r.Environment, Trials: len(r.Trials),
	}
	for _, t := range r.Trials {
		if !t.Gate.Passed {
			out.Excluded++
		}
	}
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
