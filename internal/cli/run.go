package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/fleet"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/words"
)

// runsFolder is where runs go that name no folder.
const runsFolder = "hopbench-runs"

type runFlags struct {
	blocks   int
	duration time.Duration
	seed     uint64
	full     bool
	json     bool
	out      string
	resume   string
	quiet    bool
	verbose  bool
	quick    bool
	only     []string
	onFault  string
	explain  bool
	matters  runs.Matters
	testbed  string
	sink     sinkFlags
	nats     string // servers of a cluster, see joinAt
	watched  live.Flags
	// views are those who watch, from before the run begins until after it.
	views *live.Views
	// unkept says that the folder is gone after the run, which is a round of a watch.
	unkept bool
}

// What a run does when a process of the lab dies.
const (
	onFaultContinue = "continue"
	onFaultStop     = "stop"
)

func runCommand(s base.Streams) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run EXPERIMENT",
		Short: "Build an experiment's paths, measure them in random blocks, report what hops cost",
		Long: `run builds every path of an experiment in a lab of network namespaces on this
machine (no root needed), measures every test on every path in randomised
blocks, and reports what each path costs compared with the baseline, with intervals.

EXPERIMENT is the name of a bundled experiment (see hopbench experiments) or
the path of a file. The run folder gets report.html, report.md, result.json,
trials.csv, and every raw trial in run.sqlite.

--testbed measures on real hosts instead: its file describes the source, the
destination and each path of the experiment, and how to reach the ends (see
hopbench testbed --help). Nothing is scaled then, and the rates, delays and rules of
hops, which a lab simulates, are not applied. The run starts with the checks of
hopbench testbed check.

--quick uses the fewest blocks that can show an effect in all comparisons, and
trials of 500 ms or the quick durations in the experiment's file. --full uses the
published durations.

--matters sets the smallest effects that matter, by metric, and overrides the
experiment's file: a share for rates, an amount for times and for losses. An effect
that is certainly smaller is no cost.

--explain adds short trials after the blocks if nothing shows what limits a tcp test on
a path: three trials of at most two seconds paced a tenth slower, with twice the
window or with twice the flows, whichever separates the causes. They count for no
verdict. With --resume it explains a complete run.

--ui shows the run in a browser: each second, each pair, the counters of hops, a log,
and at the end the report. It prints the address, which contains a random token, once.
--events writes the same steps for programs, --prometheus serves them to Prometheus. No
trial waits for a viewer.

--to writes the samples of a fleet into a database during the run, as hopbench
export --to does after a run. Give the connection file again with --resume; samples
that are already in the database are not written again.

"all" runs the bundled experiments one after the other into one folder with
index.html, index.md and index.json. If one fails, the others still run.

If a hop dies during a run (a process of the lab is killed, or fails), this counts as a
failure of a trial on its path; an interrupted trial of another path is repeated.
hopbench then rebuilds the lab and continues, up to three times without a
counted trial in between. With --on-fault stop the run (also of "all") ends
instead, with exit status 1 and a report of what was measured.`,
		Example: `  hopbench run routing-appliance
  hopbench run routing-appliance --blocks 20 --duration 5s
  hopbench run ./my.yaml --json > result.json
  hopbench run --resume hopbench-runs/2026-11-21T09-30-00-routing-appliance
  hopbench run fastpath --quick
  hopbench run ./my.yaml --matters rtt=50us,goodput=3%
  hopbench run public-vs-peered --testbed office.yaml
  hopbench run firewall-fleet --ui --events steps.ndjson
  hopbench run all --quick`,
		ValidArgsFunction: base.First(func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			names, directive := completeExperiments(c, args, typed)
			return append(names, everything), directive
		}),
		Args: func(c *cobra.Command, args []string) error {
			if f.resume != "" {
				return base.Exactly()(c, args)
			}
			return base.Exactly("EXPERIMENT")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			base.OutliveReader()
			if f.onFault != onFaultContinue && f.onFault != onFaultStop {
				return base.Usage(fmt.Errorf("--on-fault %q: write %s or %s", f.onFault, onFaultContinue, onFaultStop))
			}
			f.watched.Resumed, f.watched.Folder = f.resume != "", cmp.Or(f.resume, f.out)
			if f.views, err = f.watched.Open(c.Context(), &s, f.json); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.views.Close()) }()
			if f.resume != "" {
				if f.quick || len(f.only) > 0 {
					return base.Usage(errors.New("--quick and --only are for a new run; what is resumed knows its own"))
				}
				if isIndex(f.resume) {
					return resumeAll(c.Context(), s, f)
				}
				return resumeRun(c.Context(), s, f)
			}
			if err := f.some(c); err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1 << 53) // exact in every JSON reader
			}
			if f.sink.to != "" && f.testbed == "" {
				return base.Usage(errNoSamples)
			}
			if args[0] == everything && f.testbed != "" {
				return base.Usage(errors.New("--testbed is for one experiment: a testbed file names its paths"))
			}
			if args[0] == everything {
				return newAll(c.Context(), s, f)
			}
			if len(f.only) > 0 {
				return base.Usage(fmt.Errorf("--only is for %q; see %s --help", "run all", c.CommandPath()))
			}
			return newRun(c.Context(), s, f, args[0])
		},
	}
	flags := c.Flags()
	flags.IntVar(&f.blocks, "blocks", 0, "number of blocks (default: the experiment's); hopbench experiments check shows how many an effect needs")
	flags.VarP((*base.SecondsValue)(&f.duration), "duration", "t", "measured time of each throughput trial (default: the experiment's)")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: a new one, recorded)")
	flags.BoolVar(&f.full, "full", false, "use the published durations")
	flags.BoolVarP(&f.json, "json", "J", false, "print result.json on standard output and nothing else there")
	flags.StringVarP(&f.out, "out", "o", "", "run folder (default "+runsFolder+"/TIME-EXPERIMENT)")
	flags.StringVar(&f.resume, "resume", "", "continue the run in this folder")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	runs.VerboseFlag(flags, &f.verbose)
	flags.BoolVar(&f.quick, "quick", false, "the fewest blocks that can show an effect, and the shortest trials that the experiment allows")
	flags.StringSliceVar(&f.only, "only", nil, "all: only these experiments, separated by commas")
	flags.StringVar(&f.onFault, "on-fault", onFaultContinue, "when a hop dies: "+onFaultContinue+" with a new lab, or "+onFaultStop)
	flags.BoolVar(&f.explain, "explain", false, "after the blocks, find out what limits tcp tests with an unknown limit, by short trials with one thing changed")
	flags.StringVar(&f.testbed, "testbed", "", "measure on the hosts of this testbed file instead of a lab")
	flags.StringVar(&f.nats, natsFlag, "", natsUsage)
	f.matters.Define(c, "")
	f.watched.Define(flags)
	f.sink.define(c)
	base.Complete(c, "only", base.ListOf(experiments.Names()...))
	base.Complete(c, "on-fault", base.OneOf(onFaultContinue, onFaultStop))
	c.MarkFlagsMutuallyExclusive("quick", "full")
	for _, known := range []string{"blocks", "duration", "seed", "full", "out", runs.MattersFlag, "testbed"} {
		c.MarkFlagsMutuallyExclusive("resume", known)
	}
	return c
}

// some refuses no blocks, and tests of no time: 0 stands for the experiment's own.
func (f runFlags) some(c *cobra.Command) error {
	if c.Flags().Changed("blocks") && f.blocks < 1 {
		return base.Usage(fmt.Errorf("--blocks %d: measure every path at least once; leave it out for the experiment's own number", f.blocks))
	}
	if c.Flags().Changed("duration") && f.duration <= 0 {
		return base.Usage(errors.New("--duration 0: nothing is measured in no time; leave it out for the experiment's own"))
	}
	return nil
}

// errNoSamples says that there is nothing to be put into a database.
var errNoSamples = errors.New("--to puts the samples of a fleet into a database while it runs: its testbed file, with kind: fleet, is named by --testbed; hopbench export writes what other runs counted")

// session is a run under way: what it shows itself on, what was asked of it, and
// what is kept of it.
type session struct {
	base.Streams
	flags runFlags
	store *store.Store
	// reopened says that an earlier session has begun it.
	reopened bool
	// again says that this one has built its testbed before.
	again bool
	head  store.Head
	e     *experiment.Experiment
	plan  experiment.Plan
	// on is what the run is measured on, and inventory where its paths are, nil of a lab.
	on        testbedKind
	inventory *inventory.Inventory
	// fleet are the machines that joined, nil without any. What is noted of them goes to notes.
	fleet *fleet.Fleet
	notes *base.LineWriter
	// samples takes what they count, nil without any.
	samples *collect.Collector
	// feeder puts them into a database, nil unless that is wanted.
	feeder *collect.Feeder
}

func newRun(ctx context.Context, s base.Streams, f runFlags, arg string) error {
	r, err := prepareRun(s, f, arg)
	if err != nil {
		return err
	}
	dir := cmp.Or(f.out, filepath.Join(runsFolder, r.head.Started.Format(folderTime)+"-"+r.e.Name))
	if isIndex(dir) { // by which it could not be resumed
		return fmt.Errorf("%s already holds the runs of run all; choose another folder with --out", dir)
	}
	if r.store, err = store.Create(dir, r.head); err != nil {
		return err
	}
	return r.carryOut(ctx)
}

// folderTime begins the names of run folders.
const folderTime = "2006-01-02T15-04-05"

// prepareRun reads and plans an experiment. The run has no store yet.
func prepareRun(s base.Streams, f runFlags, arg string) (*session, error) {
	file, text, err := readExperiment(arg)
	if err != nil {
		return nil, err
	}
	head := store.Head{
		Experiment: string(text), File: file, Argument: arg, Seed: f.seed,
		Blocks: f.blocks, Duration: measurement.SecondsOf(f.duration), Full: f.full, Quick: f.quick, Matters: f.matters, Explain: f.explain,
		Started: time.Now().Round(time.Millisecond),
	}
	if f.testbed != "" {
		if head.TestbedFile, err = testbedFile(f.testbed); err != nil {
			return nil, err
		}
	}
	if file == arg { // not a bundled one, which is nowhere
		if head.File, err = filepath.Abs(file); err != nil {
			return nil, fmt.Errorf("find the experiment again: %w", err)
		}
	}
	return planRun(s, f, head)
}

// planRun plans a run of what a head says.
func planRun(s base.Streams, f runFlags, head store.Head) (r *session, err error) {
	r = &session{Streams: s, flags: f, head: head}
	if r.e, r.plan, err = runner.Prepare(r.head); err != nil {
		return nil, base.Usage(err)
	}
	if err = r.findPaths(); err != nil {
		return nil, base.Usage(err)
	}
	rules, err := lab.RuleFiles(r.e)
	if err != nil {
		return nil, err
	}
	if f.quick && f.blocks == 0 {
		r.head.Blocks = analysis.FewestBlocks()
		if r.e, r.plan, err = runner.Prepare(r.head); err != nil {
			return nil, base.Usage(err)
		}
	}
	r.head.Name, r.head.Planned, r.head.RuleFiles = r.e.Name, len(r.plan.Trials), rules.Digests
	return r, nil
}

// carryOut does a run and prints whatever there is of it then, also after an
// interruption.
func (r *session) carryOut(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.close()) }()
	result, err := r.measure(ctx)
	if result == nil {
		return err
	}
	return runs.PrintResult(r.Streams, result, err, r.store.Dir(), r.flags.json, r.flags.verbose)
}

// endFleet ends what a run on a fleet has under way, before what it writes to. A second call
// does nothing.
func (r *session) endFleet() (err error) {
	if r.fleet != nil {
		err = r.fleet.Close()
		r.notes.Close()
		r.fleet = nil
	}
	return errors.Join(err, r.endSamples())
}

// close ends a run, and lets go of its folder.
func (r *session) close() error { return errors.Join(r.endFleet(), r.store.Close()) }

// note keeps a sentence about the run, once, and says whether it is new.
func (r *session) note(sentence string) bool { return r.head.Note(sentence) }

// keeper keeps the run's trials.
func (r *session) keeper() runner.Keeper {
	if r.samples == nil {
		return r.store
	}
	return sampledRun{r.store, r.samples, settleTime}
}

// build makes the paths of the run ready to measure.
func (r *session) build(ctx context.Context) (testbed.Testbed, error) { return r.on.build(r, ctx) }

// buildLab builds the paths of the run, by the same rules every time.
func (r *session) buildLab(ctx context.Context) (testbed.Testbed, error) {
	bed, err := testbedlab.New(ctx, r.e)
	if err != nil {
		return nil, err
	}
	if err := sameRules(r.head.RuleFiles, bed.RuleDigests()); err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	return bed, nil
}

// measure measures what the store lacks of the plan, and writes the report
// of whatever there is then. The result is nil where there is nothing to
// report; it is valid together with the error of a run that ended early.
func (r *session) measure(ctx context.Context) (measured *result.Result, err error) {
	stored, _, err := r.store.Count(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	show := live.NewProgress(r.Err, r.flags.quiet, r.flags.views.Stream)
	defer func() {
		show.End()
		r.flags.views.Report(measured)
		show.Ended(err)
	}()
	show.Begin(r.e, r.plan, r.store.Dir(), stored)
	if r.reopened && stored < len(r.plan.Trials) {
		r.note(words.Resumed(stored, len(r.plan.Trials)))
	}
	if whole, err := r.whole(ctx, stored); err != nil {
		return nil, err
	} else if whole {
		return r.report(context.WithoutCancel(ctx))
	}
	others := live.WatchMachine(&r.head, r.e.Name, show)
	defer others.Leave()
	bed, err := r.build(ctx)
	if err != nil {
		if ctx.Err() != nil { // whatever the testbed calls it
			err = errors.Join(errors.New("stopped while the paths were built"), besidesStop(err))
		}
		err = errors.Join(err, r.endFleet())
		if !r.reopened { // else the folder was there before
			err = errors.Join(err, discardEmpty(r.store))
		}
		return nil, err
	}
	if err = r.repeatTorn(ctx, show); err == nil {
		err = r.enter(ctx, bed, show)
	}
	if err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	planner, err := r.planner(ctx, show)
	if err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	tell := func(sentence string) {
		r.note(sentence)
		show.Facts([]string{sentence})
	}
	runErr := runner.Run(ctx, runner.Options{
		Planner: planner, Testbed: bed, Build: func(ctx context.Context) (testbed.Testbed, error) { return r.rebuild(ctx, show) }, Keeper: r.keeper(),
		Others: others.Since, SetAside: func(ctx context.Context, again runner.Repeated) error {
			if t := again.NoResult; t != nil {
				tell(words.NoResult(t))
			} else {
				tell(words.CopiedAgain(again.Copied, len(again.IDs)))
			}
			return r.store.SetAside(ctx, again.IDs, r.head)
		}, StopOnFault: r.flags.onFault == onFaultStop,
		OnEvent: func(event runner.Event) {
			if event.Rebuilt != nil {
				tell(words.Rebuilt(r.inventory != nil, event.Rebuilt))
			}
			show.Event(event)
			if event.Rebuilt != nil || event.Finished != nil && others.Look() {
				// At once, should this run be killed; an error is told at the end.
				_ = r.store.SetHead(r.head)
			}
		},
	})
	others.Leave()
	runErr = errors.Join(runErr, r.settleSamples(ctx))
	show.End()
	if r.fleet != nil {
		if back := r.fleet.Returned(); len(back) > 0 {
			r.note(words.Returned(back))
		}
		if stopped := r.fleet.Stopped(); len(stopped) > 0 {
			r.note(words.Stopped(stopped))
		}
	}
	if errors.Is(runErr, runner.ErrFault) {
		r.note(fmt.Sprintf("The run %v.", runErr))
	}
	if err := r.store.SetHead(r.head); err != nil {
		runErr = errors.Join(runErr, err)
	}
	// What was measured is reported even if the run was stopped: ctx is over
	// then, and reading the store must not be.
	ctx = context.WithoutCancel(ctx)
	result, err := r.report(ctx)
	if runErr != nil {
		err = errors.Join(interrupted(ctx, r.store, len(r.plan.Trials), len(planner.Left()), r.flags, runErr), err)
	}
	return result, err
}

// report analyses what there is of the run, and writes its report where that is kept.
func (r *session) report(ctx context.Context) (*result.Result, error) {
	if r.flags.unkept {
		return runs.Analyse(ctx, r.store, nil)
	}
	return runs.Report(ctx, r.store, nil, nil)
}

// planner plans the trials of the run, and those that explain them if they are wanted.
func (r *session) planner(ctx context.Context, show *live.Progress) (runner.Planner, error) {
	if !r.head.Explain {
		return runner.Fixed(r.plan), nil
	}
	varied, err := r.store.Variations(ctx)
	if err != nil {
		return nil, err
	}
	return runner.Explaining(r.head, r.plan, varied, func(all []result.Variation) {
		for _, v := range all[len(r.head.Variations):] {
			show.Facts([]string{words.Varied(v, runner.VariationTrials)})
		}
		r.head.Variations = all
		// At once, should this run be killed; an error is told at the end.
		_ = r.store.SetHead(r.head)
	})
}

// whole says that nothing is left to be measured, nor to be taken from the machines of a fleet:
// a testbed, which may be gone, is not needed.
func (r *session) whole(ctx context.Context, stored int) (bool, error) {
	if stored < len(r.plan.Trials) || r.head.Explain || r.on.samples {
		return false, nil
	}
	trials, err := r.store.Trials(ctx)
	if err != nil {
		return false, err
	}
	torn, _ := runner.Torn(r.plan, trials)
	return len(torn) == 0, nil
}

// repeatTorn has the blocks that an interruption tore done again.
func (r *session) repeatTorn(ctx context.Context, show *live.Progress) error {
	stored, err := r.store.Trials(ctx)
	if err != nil {
		return err
	}
	ids, repeated := runner.Torn(r.plan, stored)
	if len(ids) == 0 {
		return nil
	}
	r.head.Repeated = append(r.head.Repeated, repeated...)
	for _, b := range repeated {
		show.Facts([]string{words.BlockAgain(b.Block, b.Trials)})
	}
	return r.store.SetAside(ctx, ids, r.head)
}

// rebuild builds the paths again.
func (r *session) rebuild(ctx context.Context, show *live.Progress) (testbed.Testbed, error) {
	r.again = true
	bed, err := r.build(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.compareWithLast(ctx, bed, show); err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	for _, fact := range bed.Facts() {
		if r.note(fact) {
			show.Facts([]string{fact})
		}
	}
	return bed, nil
}

// compareWithLast keeps and tells what is another on a testbed that was built again than it
// was just before, such as the system of an end that came back.
func (r *session) compareWithLast(ctx context.Context, bed testbed.Testbed, show *live.Progress) error {
	now, err := r.part(ctx, bed)
	if err != nil {
		return err
	}
	last := result.Session{Environment: r.head.Environment, Endpoints: r.head.Testbed.Endpoints}
	if n := len(r.head.Resumed); n > 0 {
		last = r.head.Resumed[n-1]
	}
	if len(analysis.SessionDifferences(last.Environment, last.Endpoints, now)) == 0 {
		return nil
	}
	r.head.Resumed = append(r.head.Resumed, now)
	show.Facts(words.Names{}.Notes(analysis.SessionDifferences(r.head.Environment, r.head.Testbed.Endpoints, now)))
	return r.store.SetHead(r.head)
}

// part is the part of the run that begins now on a testbed.
func (r *session) part(ctx context.Context, bed testbed.Testbed) (result.Session, error) {
	environment := hostinfo.Machine()
	maps.Copy(environment, bed.Environment())
	kept, _, err := r.store.Count(ctx)
	return result.Session{Started: time.Now().Round(time.Millisecond), Trials: kept, Environment: environment, Endpoints: bed.Info().Endpoints}, err
}

// enter keeps and tells where the run is measured, as far as that is known
// before its first trial.
func (r *session) enter(ctx context.Context, bed testbed.Testbed, show *live.Progress) error {
	now, err := r.part(ctx, bed)
	if err != nil {
		return err
	}
	info, kept := bed.Info(), now.Trials
	switch {
	case kept == 0:
		r.head.Environment, r.head.Resumed = now.Environment, nil
		if err := r.planStages(bed); err != nil {
			return err
		}
	case kept < len(r.plan.Trials):
		r.head.Resumed = append(r.head.Resumed, now)
		show.Facts(words.Names{}.Notes(analysis.SessionDifferences(r.head.Environment, r.head.Testbed.Endpoints, now)))
	}
	if kept > 0 { // what the ends were at first, as the environment
		info.Endpoints = r.head.Testbed.Endpoints
	}
	r.head.Testbed = info
	facts := bed.Facts()
	show.Facts(facts)
	for _, fact := range facts {
		r.note(fact)
	}
	return r.store.SetHead(r.head)
}

// discardEmpty removes the folder of a run that has not measured anything, so
// that a lab that cannot be built leaves nothing behind.
func discardEmpty(st *store.Store) error {
	n, _, err := st.Count(context.Background())
	if err != nil || n > 0 {
		return err
	}
	return st.Discard()
}
