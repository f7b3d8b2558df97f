package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/cli/testcmd"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/metrics"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/spelling"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testbed/direct"
	"github.com/hopbench/hopbench/internal/watch"
	"github.com/hopbench/hopbench/internal/words"
)

// watchesFolder is where watches are that name no folder.
const watchesFolder = "hopbench-watch"

// Intervals of a watch of a host and of an experiment, where none is given.
const (
	hostEvery       = 15 * time.Minute
	experimentEvery = 6 * time.Hour
)

// leastFalseAlarms is the least number of false alarms a year that can be asked for: one in 10 000 years.
const leastFalseAlarms = 0.0001

type watchFlags struct {
	host        testcmd.Host
	only        []string
	run         runFlags
	name, out   string
	every       time.Duration
	jitter      float64
	budget      string
	falseAlarms float64
	matters     runs.Matters
	rounds      int
	events      string
	prometheus  string
	verbose     bool
}

func watchCommand(s base.Streams) *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:   "watch HOST|EXPERIMENT",
		Short: "Measure a path or an experiment repeatedly, and announce each change once",
		Long: `watch measures the path to a host that runs hopbench serve, every 15 minutes, or
an experiment, every 6 hours, until you stop it. It stores the result of each round,
and announces once when a level, the loss or the route has changed, when the other end
is unreachable, and when it is reachable again.

The tests of a host are the route, round trips and their loss, the loss of small
datagrams, and the throughput of one flow in each direction: about 10 seconds.
Throughput tests cause traffic; they run as often as --budget allows.

The watch learns the normal level from the first day of rounds (at least 24), and again
after a change. It derives limits from the observed noise, so that an unchanged path
causes no more false alarms than --false-alarms allows, all series together. It prints
the limits, and the smallest change that it finds, when it has learned them; hopbench
results --history NAME shows them, too.

To continue a stopped or killed watch, run the same command again.
docs/watch.md has the details.`,
		Example: `  hopbench watch 192.0.2.7 --token-file token
  hopbench watch 192.0.2.7 --every 5m --budget 2GB --prometheus :9152
  hopbench watch firewall.yaml --testbed office.yaml --every 6h
  hopbench results --history 192.0.2.7 --html history.html`,
		Args:              base.Exactly("HOST|EXPERIMENT"),
		ValidArgsFunction: base.First(completeExperiments),
		RunE: func(c *cobra.Command, args []string) error {
			base.OutliveReader()
			f, of, other := f, "a host", "experiment: "
			if isExperiment(args[0]) {
				of, other = "an experiment", "host: "
				if !c.Flags().Changed("every") {
					f.every = experimentEvery
				}
			} else if near := spelling.Nearest(args[0], experiments.Names()); near != "" {
				if _, err := net.DefaultResolver.LookupHost(c.Context(), args[0]); err != nil {
					return base.Usage(fmt.Errorf("there is no experiment %q, and no host of that name; did you mean %q?", args[0], near))
				}
			}
			var wrong error
			c.Flags().Visit(func(flag *pflag.Flag) {
				if strings.HasPrefix(flag.Usage, other) {
					wrong = base.Usage(fmt.Errorf("--%s has no meaning for %s; leave it out (an experiment is a bundled name or a file, NAME.yaml)", flag.Name, of))
				}
			})
			if wrong != nil {
				return wrong
			}
			if err := f.run.some(c); err != nil {
				return err
			}
			return f.watch(c.Context(), s, args[0])
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.name, "name", "", "name of the watch (default: the name of the host or the experiment)")
	flags.StringVarP(&f.out, "out", "o", "", "folder of the watch (default "+watchesFolder+"/NAME)")
	f.every = hostEvery
	flags.Var((*base.SecondsValue)(&f.every), "every", "time between the starts of rounds (for an experiment: default 6h)")
	flags.Float64Var(&f.jitter, "jitter", 0.1, "share of that by which a round may start later, at random: 0 to 1")
	flags.StringVar(&f.budget, "budget", "1GB", "traffic of a day's rounds, both directions together; 0 is no limit")
	flags.Float64Var(&f.falseAlarms, "false-alarms", watch.DefaultFalseAlarms, "allowed false alarms per year, all series together")
	f.matters.Define(c, "no limit is narrower than ")
	flags.IntVar(&f.rounds, "rounds", 0, "stop after this many rounds (default: never)")
	flags.StringVar(&f.events, "events", "", "write each round and each announcement to this FILE, one JSON document per line; - is standard output, and nothing else is printed there")
	flags.StringVar(&f.prometheus, "prometheus", "", "[ADDRESS]:PORT at which Prometheus finds /metrics (without an address: loopback only)")
	flags.BoolVarP(&f.verbose, "verbose", "V", false, "print a line for each round")
	f.host.Define(c, "host: ")
	flags.StringSliceVar(&f.only, "only", nil, "host: only these kinds of test: trace, rr, udp, tcp")
	flags.BoolVar(&f.run.quick, "quick", false, "experiment: as hopbench run --quick")
	flags.IntVar(&f.run.blocks, "blocks", 0, "experiment: number of blocks of each run (default: the experiment's)")
	flags.StringVar(&f.run.testbed, "testbed", "", "experiment: measure on the hosts of this testbed file instead of a lab")
	base.Complete(c, "only", base.ListOf("trace", "rr", "udp", "tcp"))
	return c
}

// isExperiment says whether a word names an experiment and no host.
func isExperiment(arg string) bool {
	if slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(arg))) || strings.ContainsRune(arg, filepath.Separator) {
		return true
	}
	return slices.Contains(experiments.Names(), arg)
}

// watchTests are the short profile of a host.
func (f *watchFlags) watchTests() (survey.List, error) {
	all := survey.List{
		{Name: "route", Spec: measurement.Spec{Kind: measurement.Trace}},
		{Name: "latency", Spec: measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 64, ResponseBytes: 64, RequestsPerSecond: 500, Duration: 2.2}},
		{Name: "datagrams", Spec: measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: 4e6, PacketBytes: 200, Duration: 2}},
		{Name: "send", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 2, MaxWarmup: 1}},
		{Name: "receive", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Receive, Duration: 2, MaxWarmup: 1}},
	}
	kinds := map[measurement.Kind]bool{}
	var tests survey.List
	for _, t := range all {
		t.Spec = t.Spec.Defaults()
		kinds[t.Spec.Kind] = true
		if len(f.only) == 0 || slices.Contains(f.only, string(t.Spec.Kind)) {
			tests = append(tests, t)
		}
	}
	for _, name := range f.only {
		if !kinds[measurement.Kind(name)] {
			return nil, fmt.Errorf("--only %q: a watch has trace, rr, udp and tcp", name)
		}
	}
	return tests, nil
}

// watch does all of it.
func (f *watchFlags) watch(ctx context.Context, s base.Streams, arg string) (err error) {
	if !(f.jitter >= 0 && f.jitter <= 1) { // nor NaN
		return base.Usage(fmt.Errorf("--jitter %v: write a share from 0 to 1", f.jitter))
	}
	if f.every < time.Second {
		return base.Usage(fmt.Errorf("--every %v: write a second or more", f.every))
	}
	if f.rounds < 0 {
		return base.Usage(fmt.Errorf("--rounds %d: write how many, or leave it out to go on until it is stopped", f.rounds))
	}
	if !(f.falseAlarms >= leastFalseAlarms && f.falseAlarms <= 1000) {
		return base.Usage(fmt.Errorf("--false-alarms %v: write a number from %v to 1000, such as 0.25 for one in four years", f.falseAlarms, leastFalseAlarms))
	}
	if f.name != "" && f.out == "" && !isWatchName(f.name) {
		return base.Usage(fmt.Errorf("--name %s: this is a folder, and the name of a watch is one in %s; write --out for a folder", f.name, watchesFolder))
	}
	text := strings.TrimSuffix(f.budget, "/day")
	budget, err := quantity.ParseBytes(text)
	if text == "0" {
		budget, err = 0, nil
	}
	if err != nil {
		return base.Usage(fmt.Errorf("--budget: %w", err))
	}
	measure, tests, head, err := f.subject(s, arg)
	if err != nil {
		return base.Usage(err)
	}
	always, little := watch.Bounded(tests)
	if day := little * float64(24*time.Hour) / float64(f.every); budget > 0 && float64(budget) < day {
		return base.Usage(fmt.Errorf("--budget %s: round trips and datagrams alone take %s a day; give more, a longer --every, or fewer tests by --only", f.budget, quantity.FormatBytes(int64(day))))
	}
	dir := cmp.Or(f.out, filepath.Join(watchesFolder, head.Name))
	st, head, err := store.TakeUpWatch(dir, head)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	reading := live.Working(&s, "rounds of "+head.Name)
	before, missing, err := st.Rounds(ctx)
	reading.End()
	if err != nil {
		return err
	}
	var newest int64
	if missing != (store.Missing{}) {
		if newest, err = st.Newest(ctx); err != nil {
			return fmt.Errorf("%w; hopbench results --history %s shows what can be read; watch under another --name", err, printable.ShellWord(dir))
		}
		fmt.Fprintln(s.Err, words.DamagedWatch(missing.Count, 0, missing.More))
	}
	out, err := live.OpenLines(f.events, &s)
	if err != nil {
		return base.Usage(err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fmt.Fprintf(s.Err, "kept in %s; see hopbench results --history %s\n", base.Shown(dir), base.Shown(printable.ShellWord(cmp.Or(f.out, head.Name))))
	left, long, spent := f.rounds, false, false
	moved := map[string]int64{} // by each test the last time
	for _, r := range before {
		maps.Copy(moved, r.Payload)
	}
	lines := base.NewAnnouncer(s.Out) // a terminal that was stopped (Ctrl-S) stops no watch
	defer lines.Close()
	w := watch.New(watch.Options{
		Head: head, Measure: measure, Keeper: st, Before: before, Newest: newest, Jitter: f.jitter, Budget: float64(budget), Always: always,
		Announce: func(e watch.Event) {
			out.Write(e)
			if e.Code == watch.RoundEnded {
				if why := words.LongRound(*e.Of, f.every); why != "" && !long {
					long = true
					fmt.Fprintln(s.Err, "warning: "+why)
				}
				maps.Copy(moved, e.Of.Payload)
				if why := words.SpentBudget(*e.Of, moved, budget); why != "" && !spent {
					spent = true
					fmt.Fprintln(s.Err, "warning: "+why)
				}
				if left--; left == 0 {
					stop()
				}
				if !f.verbose {
					return
				}
			}
			fmt.Fprintf(lines, "%s  %s\n", words.WatchMoment(e.Time), base.Shown(words.WatchEvent(e)))
		},
	})
	if f.prometheus == "" {
		return w.Run(ctx)
	}
	end, err := live.Expose(ctx, &s, f.prometheus, func(ctx context.Context, at net.Listener) error { return metrics.ServeWatch(ctx, at, w.State) })
	if err != nil {
		return base.Usage(err)
	}
	return errors.Join(w.Run(ctx), end())
}

// subject is what is watched, how it is measured, and by which tests, of a host.
func (f *watchFlags) subject(s base.Streams, arg string) (watch.Measure, survey.List, watch.Head, error) {
	head := watch.Head{Name: f.name, Target: arg, Begun: time.Now().Round(time.Millisecond), Rules: watch.Rules{
		Every: measurement.SecondsOf(f.every), FalseAlarmsPerYear: f.falseAlarms, Matters: f.matters,
	}}
	if isExperiment(arg) {
		f.run.seed, f.run.quiet, f.run.onFault, f.run.matters = 1, true, onFaultContinue, f.matters
		r, err := prepareRun(s, f.run, arg)
		if err != nil {
			return nil, nil, head, err
		}
		head.Name = cmp.Or(head.Name, r.e.Name)
		head.Rules.Series = seriesOf(r.e)
		// What matters according to the file does, too.
		if len(r.e.Matters) > 0 {
			head.Rules.Matters = r.e.Matters
		}
		head.Subject, err = digest(r.head)
		return f.measureExperiment(r.head), nil, head, err
	}
	tests, err := f.watchTests()
	if err != nil {
		return nil, nil, head, err
	}
	to, device, err := testcmd.SplitTarget(arg, f.host.Port)
	if err != nil {
		return nil, nil, head, err
	}
	if err := f.host.Check(to); err != nil {
		return nil, nil, head, err
	}
	for i := range tests {
		if _, takes := kind.Find(tests[i].Spec.Kind, "device"); takes {
			tests[i].Spec.Device = device
		}
	}
	if _, err := base.ReadToken(f.host.TokenFile); err != nil {
		return nil, nil, head, err
	}
	if head.Name == "" {
		head.Name = strings.Map(func(r rune) rune {
			if strings.ContainsRune(`/\:*?"<>|%`, r) {
				return '-'
			}
			return r
		}, to.Name)
	}
	head.Rules.Series = watch.SeriesOf(tests)
	for _, t := range tests {
		head.Rules.Tests = append(head.Rules.Tests, t.Name)
	}
	base.SpareProcessor()
	return f.measureHost(to, tests, probe.Run), tests, head, nil
}

// seriesOf is how many series an experiment has at most: the primary effects of each of its
// comparisons, and the levels of what they compare with. It is two for each test on a path at
// least, so that watches go on by the rules that they began with.
func seriesOf(e *experiment.Experiment) int {
	effects, baselines := 0, map[string]bool{}
	for _, c := range e.Comparisons() {
		if c.Against == nil {
			effects++
			baselines[c.Baseline] = true
		}
	}
	return max(analysis.PrimaryComparisons(effects+len(baselines), e.TestInfos()), 2*len(e.Paths)*len(e.Tests))
}

// whileReached is tests of which none is done once no server was found that they need.
type whileReached struct{ survey.List }

func (l whileReached) Next(done []survey.Step) (result.TestInfo, bool) {
	if survey.LacksServer(done) {
		return result.TestInfo{}, false
	}
	return l.List.Next(done)
}

// measureHost measures the path to a host.
func (f *watchFlags) measureHost(to testcmd.Target, tests survey.List, run direct.RunFunc) watch.Measure {
	return func(ctx context.Context, allowed func(string) bool) (watch.Round, error) {
		var r watch.Round
		request, err := f.host.Prepare(ctx, to, f.host.Bind)
		if err != nil {
			// A name that is not found, or an address that is gone, may come back.
			r.Outage, r.Failed = true, []watch.Failure{{Error: err.Error()}}
			return r, nil
		}
		var todo survey.List
		for _, t := range tests {
			if allowed(t.Name) {
				todo = append(todo, t)
			} else {
				r.Skipped = append(r.Skipped, t.Name)
			}
		}
		plan := survey.NewPlan(direct.OnlyPath, whileReached{todo}, 1, rand.Uint64())
		keeper := &runner.Memory{}
		bed := direct.New(run, direct.Path(direct.OnlyPath, to.Name, request))
		if err := runner.Run(ctx, runner.Options{Planner: plan, Testbed: bed, Keeper: keeper, Unlimited: true}); err != nil {
			return r, err
		}
		served, answered := 0, 0
		for _, step := range plan.Steps() {
			r.AddTrial(step.Trial, step.Test.Spec)
			if k, _ := kind.Of(step.Test.Spec.Kind); !k.NoServer {
				if served++; step.Trial.Gate.Passed || !step.Trial.Gate.Broken {
					answered++
				}
			}
		}
		r.Outage = survey.LacksServer(plan.Steps()) || served > 0 && answered == 0
		return r, nil
	}
}

// digest is of what a run measures: what its files say, without comments and prose, and what
// the command line sets instead.
func digest(head store.Head) (string, error) {
	of := []any{head.Blocks, head.Quick, head.RuleFiles}
	texts := []string{head.Experiment}
	if head.TestbedFile != nil {
		texts = append(texts, head.TestbedFile.Text)
	}
	for _, text := range texts {
		said, err := strict.Said([]byte(text))
		if err != nil {
			return "", err
		}
		for _, prose := range []string{"title", "description", "model", "published"} {
			delete(said, prose)
		}
		for _, list := range []string{"paths", "tests"} {
			items, _ := said[list].([]any) // those of a testbed are by name, and have no title
			for _, item := range items {
				if item, ok := item.(map[string]any); ok {
					delete(item, "title")
				}
			}
		}
		of = append(of, said)
	}
	text, err := json.Marshal(of)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// measureExperiment runs an experiment, as it was when the watch began, and keeps its effects.
func (f *watchFlags) measureExperiment(head store.Head) watch.Measure {
	const whole = "run" // the name of its budget
	return func(ctx context.Context, allowed func(string) bool) (r watch.Round, err error) {
		if !allowed(whole) {
			r.Skipped = []string{whole}
			return r, nil
		}
		measured, err := f.runOnce(ctx, head)
		return roundOf(whole, measured, err), nil
	}
}

// roundOf is what a run brought: where it ended early, what it moved, and why.
func roundOf(name string, measured *result.Result, err error) (r watch.Round) {
	if measured != nil {
		r.AddRun(name, measured)
	} else if err == nil {
		err = errors.New("the run gave no result")
	}
	if err != nil {
		return watch.Round{Payload: r.Payload, Outage: true, Failed: []watch.Failure{{Error: err.Error()}}}
	}
	return r
}

// runOnce runs an experiment in a folder that is gone after it.
func (f *watchFlags) runOnce(ctx context.Context, head store.Head) (_ *result.Result, err error) {
	flags, rules := f.run, head.RuleFiles
	flags.unkept = true
	head.Seed, head.Started = rand.Uint64N(1<<53), time.Now().Round(time.Millisecond)
	flags.views = &live.Views{Stream: event.NewStream()}
	defer func() { err = errors.Join(err, flags.views.Close()) }()
	removeLeftRounds()
	dir, err := os.MkdirTemp("", roundFolder)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder for the run (TMPDIR says where): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := planRun(base.Streams{Out: io.Discard, Err: io.Discard}, flags, head)
	if err != nil {
		return nil, err
	}
	if err := sameRules(rules, r.head.RuleFiles); err != nil {
		return nil, err
	}
	if r.store, err = store.Create(filepath.Join(dir, runInRound), r.head); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.measure(ctx)
}

// roundFolder begins the names of folders for the run of one round, runInRound is the run there.
const (
	roundFolder = "hopbench-watch-round-"
	runInRound  = "run"
)

// removeLeftRounds removes, as far as that can be done, the folders of rounds during which a watch
// was killed. Others hold the lock of their run from the first moment on, which is short.
func removeLeftRounds() {
	const moment = time.Minute
	folders, _ := os.ReadDir(os.TempDir())
	for _, f := range folders {
		if number, ours := strings.CutPrefix(f.Name(), roundFolder); !ours || !f.IsDir() || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if info, err := f.Info(); err != nil || time.Since(info.ModTime()) < moment {
			continue
		}
		dir := filepath.Join(os.TempDir(), f.Name())
		lock, err := store.Lock(filepath.Join(dir, runInRound))
		if err == nil {
			err = lock.Close()
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(dir)
		}
	}
}
