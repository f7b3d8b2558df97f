package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/summary"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testbed/host"
	"github.com/hopbench/hopbench/internal/words"
)

// sequence is the tests of the kinds chosen, or the profile when none is.
func (f *testFlags) sequence(kinds []measurement.Kind) (survey.Sequence, error) {
	if len(kinds) == 0 {
		spec := measurement.Spec{Kind: measurement.TCP}
		f.options.apply(&spec)
		return survey.Options{Base: measurement.Spec{DSCP: spec.DSCP, Device: spec.Device}, Duration: spec.Duration}, nil
	}
	var tests survey.List
	for _, name := range kinds {
		spec, err := f.options.specOf(name)
		if err != nil {
			return nil, err
		}
		tests = append(tests, result.TestInfo{Name: string(name), Title: words.Title(spec), Spec: spec})
	}
	if !f.explain {
		return tests, nil
	}
	if !slices.Contains(kinds, measurement.TCP) {
		return nil, errors.New("--explain tells what limits a tcp test; leave it out, or measure with --only tcp")
	}
	return survey.Explained{List: tests}, nil
}

// hostRun is a run of hopbench test.
type hostRun struct {
	streams
	flags   *testFlags
	to      target
	plan    *survey.Plan
	head    store.Head
	store   *store.Store // nil where the run is not kept
	keeper  runner.Keeper
	summary *summary.Summary
	live    *liveLine
}

// measureHost does the tests of a sequence and shows what they brought back. It
// shows what there is also when it was stopped.
func measureHost(ctx context.Context, s streams, f *testFlags, to target, todo survey.Sequence, run host.RunFunc) (err error) {
	request, err := f.prepare(ctx, to)
	if err != nil {
		return err
	}
	spareProcessor()
	bed := host.New(to.name, request, run)
	_, isProfile := todo.(survey.Options)
	r := &hostRun{streams: s, flags: f, to: to, keeper: &runner.Memory{}, live: newLiveLine(s.err, f.quiet)}
	r.head = store.Head{
		Name: "test", Seed: rand.Uint64N(1 << 53), Blocks: f.blocks, Matters: f.matters, Started: time.Now().Round(time.Millisecond), Testbed: bed.Info(), Environment: hostinfo.Machine(),
		Test: &store.Test{
			Title: "the path to " + to.name, Command: f.command, Profile: isProfile, BottleneckBitsPerSecond: value[float64](f.options, "rate"), Tests: []result.TestInfo{},
			Path: result.PathInfo{Name: host.Path, Baseline: true, Source: bed.Source(), Dest: request.Target.String(), Hops: []result.HopInfo{}},
		},
	}
	r.plan = survey.NewPlan(host.Path, todo, r.head.Blocks, r.head.Seed)
	if f.out != "" {
		if r.store, err = store.Create(f.out, r.head); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.store.Close()) }()
		r.keeper = r.store
	}
	out := s.out
	if f.json {
		out = io.Discard
	}
	r.summary = summary.New(out, fmt.Sprintf("path to %s (%v)", to.name, request.Target),
		summary.Options{Verbose: f.verbose, Markdown: f.markdown, BinsOf: measurement.Seconds(value[float64](f.options, "interval"))})
	r.summary.Row("measured", fmt.Sprintf("%s   from %s   hopbench %s", r.head.Started.UTC().Format(time.RFC3339), bed.Source(), hostinfo.Version()))
	runErr := runner.Run(ctx, runner.Options{Planner: r.plan, Testbed: bed, Keeper: r.keeper, Unlimited: true, OnEvent: r.event})
	r.live.clear()
	return r.end(ctx, runErr)
}

// event shows and keeps a step.
func (r *hostRun) event(e runner.Event) {
	title := e.Trial.Test
	if test, ok := r.test(e.Trial.Test); ok {
		title = test.Title
	}
	if e.Finished == nil {
		var elapsed time.Duration
		if e.Live != nil {
			elapsed = e.Live.Elapsed.Duration()
		}
		r.head.Planned = e.Planned
		r.live.draw(fmt.Sprintf("  %s left  %s%s", clock(e.Left-elapsed), title, liveValue(e.Live)))
		return
	}
	r.live.clear()
	r.head.Test.Tests, r.head.Planned = nil, e.Planned
	for _, s := range r.plan.Steps() {
		r.head.Test.Tests = append(r.head.Test.Tests, s.Test)
	}
	if r.store != nil {
		// At once, should this run be killed; an error is told at the end.
		_ = r.store.SetHead(r.head)
	}
	test, _ := r.test(e.Trial.Test)
	if r.head.Blocks > 1 {
		test.Title += fmt.Sprintf(" (%d/%d)", e.Trial.Block, r.head.Blocks)
	}
	r.summary.Trial(test, *e.Finished)
}

// test is a test that was begun, or done before.
func (r *hostRun) test(name string) (result.TestInfo, bool) {
	steps := r.plan.Steps()
	i := slices.IndexFunc(steps, func(s survey.Step) bool { return s.Test.Name == name })
	if i < 0 {
		return r.plan.Current()
	}
	return steps[i].Test, true
}

// end shows and keeps the result of what was done.
func (r *hostRun) end(ctx context.Context, runErr error) error {
	f := r.flags
	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	r.head.Notes = f.notes(r.to, r.head.Test.Profile, r.plan.Steps())
	trials, err := r.keeper.Trials(ctx)
	if err != nil {
		return errors.Join(runErr, err)
	}
	if len(trials) == 0 && r.store != nil {
		return errors.Join(runErr, r.store.Discard())
	}
	var result *result.Result
	if r.store == nil {
		result, err = runner.Result(r.head, trials)
	} else if err = r.store.SetHead(r.head); err == nil {
		result, err = render(ctx, r.store, nil)
	}
	if err != nil {
		return errors.Join(runErr, err)
	}
	if f.json {
		err = data.Write(r.out, result)
	} else {
		err = r.summary.End(result)
	}
	if r.head.Blocks > 1 && !f.json && !f.markdown {
		fmt.Fprintln(r.out)
		colour := isTerminal(r.out) && os.Getenv("NO_COLOR") == ""
		err = errors.Join(err, terminal.Write(r.out, result, terminal.Options{Width: terminalWidth(r.out), Colour: colour}))
	}
	if r.store != nil {
		fmt.Fprintf(r.err, "\nreport: %s\n", filepath.Join(r.store.Dir(), "report.html"))
	}
	failed := 0
	for _, t := range trials {
		if !t.Gate.Passed {
			failed++
		}
	}
	switch {
	case stopped:
		err = errors.Join(fmt.Errorf("stopped after %s", quantity.Count(len(trials), "test")), err)
	case runErr != nil:
		err = errors.Join(runErr, err)
	case failed > 0:
		err = errors.Join(fmt.Errorf("%d of %d tests gave no result that counts", failed, len(trials)), err)
	}
	return err
}

// notes is what a reader must know of the tests as a whole.
func (f *testFlags) notes(to target, isProfile bool, done []survey.Step) []string {
	var notes []string
	if slices.ContainsFunc(done, func(s survey.Step) bool { return s.NoServer }) {
		notes = append(notes, fmt.Sprintf("No server could be used at %s, port %d: on that host, run hopbench serve (see its --help about tokens); of a stock iperf3 server, ask --iperf3 here.", to.name, to.port))
	}
	if !isProfile {
		return notes
	}
	if reason := survey.FillReason(done); reason != "" {
		notes = append(notes, "The path is filled by "+reason+".")
	}
	if reason := survey.FitReason(done); reason != "" {
		notes = append(notes, reason)
	}
	if value[string](f.options, "device") != "" {
		notes = append(notes, "The hops were traced without the interface that was asked for, which trace does not take.")
	}
	return notes
}

// commandOf is the command line that repeats a command: its arguments and the
// flags that were given, but for those that only say what becomes of the result.
func commandOf(c *cobra.Command, args []string) []string {
	words := append(strings.Fields(c.CommandPath()), args...)
	c.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "json", "markdown", "verbose", "quiet", "out":
			return
		}
		value := flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		words = append(words, "--"+flag.Name+"="+value)
	})
	return words
}
