package testcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/summary"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testbed/direct"
	"github.com/hopbench/hopbench/internal/words"
)

// sequence is the tests of the kinds chosen, or the profile when none is.
func (f *testFlags) sequence(kinds []measurement.Kind) (survey.Sequence, error) {
	if len(kinds) == 0 {
		spec := measurement.Spec{Kind: measurement.TCP}
		f.options.apply(&spec)
		profile := survey.Options{Base: measurement.Spec{DSCP: spec.DSCP, Device: spec.Device}, Duration: spec.Duration}
		for _, test := range profile.Left(nil) {
			if test.Spec.Kind == measurement.UDP {
				continue // its rate is not known yet
			}
			if err := kind.Check(test.Spec).Err(); err != nil {
				return nil, fmt.Errorf("%s of a profile: %w", cmp.Or(test.Title, test.Name), err)
			}
		}
		return profile, nil
	}
	var tests survey.List
	for _, name := range kinds {
		spec, err := f.options.specOf(name, kinds)
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

// kept is a run of hopbench test, and where its trials are.
type kept struct {
	head   store.Head
	store  *store.Store // nil where the run has no folder
	keeper runner.Keeper
}

// keep begins a run: in the folder, or in memory where that is empty.
func keep(folder string, head store.Head) (*kept, error) {
	k := &kept{head: head, keeper: &runner.Memory{}}
	if folder == "" {
		return k, nil
	}
	var err error
	if k.store, err = store.Create(folder, head); err != nil {
		return nil, err
	}
	k.keeper = k.store
	return k, nil
}

// result is that of the trials so far, with a report where the run has a folder; it may be
// valid together with an error of what could not be kept. Where nothing was measured there is
// no folder any more.
func (k *kept) result(ctx context.Context) (*result.Result, error) {
	trials, err := k.keeper.Trials(ctx)
	if err != nil {
		return nil, err
	}
	if k.store != nil && len(trials) == 0 {
		discarded := k.store
		k.store = nil
		if err := discarded.Discard(); err != nil {
			return nil, err
		}
	}
	if k.store == nil {
		return runner.Result(k.head, trials)
	}
	unkept := k.store.SetHead(k.head)
	r, err := runs.Report(ctx, k.store, nil, nil)
	return r, errors.Join(unkept, err)
}

// close ends the run.
func (k *kept) close() error {
	if k.store == nil {
		return nil
	}
	return k.store.Close()
}

// hostRun is a run of hopbench test on one path.
type hostRun struct {
	base.Streams
	*kept
	flags   *testFlags
	to      Target
	at      netip.Addr // of it
	plan    *survey.Plan
	summary *summary.Summary
	// progress publishes each step.
	progress *live.Progress
	watch    *direct.Watch
	mu       sync.Mutex // of what is written while a test goes on
	live     *live.Line
	told     bool // the parts of the test in progress
}

// measureHost does the tests of a sequence and shows what they brought back. It
// shows what there is also when it was stopped.
func measureHost(ctx context.Context, s base.Streams, f *testFlags, to Target, todo survey.Sequence, run direct.RunFunc) (err error) {
	request, err := f.prepare(ctx, to, f.Bind)
	if err != nil {
		return err
	}
	request.EndSteady = f.blocks <= 1 // repeated tests are compared, so all have one length
	base.SpareProcessor()
	path := direct.Path(direct.OnlyPath, to.Name, request)
	source := path.Pairs[0].Source
	r := &hostRun{Streams: s, flags: f, to: to, at: request.Target.Addr(), live: live.NewLine(s.Err, f.quiet)}
	r.watch = &direct.Watch{Run: run, Tell: r.part}
	if !f.json && !f.markdown {
		r.watch.Every = measurement.Seconds(value[float64](f.options, "interval")).Duration()
	}
	bed := direct.New(r.watch.Do, path)
	_, isProfile := todo.(survey.Options)
	r.kept, err = keep(f.out, f.head(f.blocks, bed, store.Test{
		Title: "the path to " + to.Name, Profile: isProfile, BottleneckBitsPerSecond: value[float64](f.options, "rate"), Tests: []result.TestInfo{},
		Paths: []result.PathInfo{{Name: direct.OnlyPath, Baseline: true, Source: source, Dest: request.Target.String(), Hops: []result.HopInfo{}}},
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	r.plan = survey.NewPlan(direct.OnlyPath, todo, r.head.Blocks, r.head.Seed)
	r.progress = live.NewProgress(io.Discard, true, f.stream) // people are shown a summary that grows
	defer r.progress.End()
	r.progress.BeginTests(event.RunStart{Name: r.head.Name, Title: r.head.Test.Title, Folder: f.out, Blocks: r.head.Blocks, Paths: []string{direct.OnlyPath}, Tests: []string{}})
	out := s.Out
	if f.json {
		out = io.Discard
	}
	r.summary = f.summary(out, fmt.Sprintf("path to %s (%v)", to.Name, request.Target))
	r.summary.Row("measured", fmt.Sprintf("%s   from %s   hopbench %s", r.head.Started.UTC().Format(time.RFC3339), source, hostinfo.Version()))
	runErr := runner.Run(ctx, runner.Options{Planner: r.plan, Testbed: bed, Keeper: r.keeper, Unlimited: true, OnEvent: r.event})
	r.live.Clear()
	early := cmp.Or(runErr, ctx.Err())
	err = r.end(ctx, runErr)
	r.progress.Ended(early) // the report is written
	return err
}

// head is that of a run of hopbench test that begins now.
func (f *testFlags) head(blocks int, bed *direct.Testbed, test store.Test) store.Head {
	test.Command = f.command
	return store.Head{
		Name: "test", Seed: rand.Uint64N(1 << 53), Blocks: blocks, Matters: f.matters, Started: time.Now().Round(time.Millisecond),
		Testbed: bed.Info(), Environment: hostinfo.Machine(), Test: &test,
	}
}

// summary is where trials are shown as they come in.
func (f *testFlags) summary(w io.Writer, title string) *summary.Summary {
	return summary.New(w, title, summary.Options{Verbose: f.verbose, Markdown: f.markdown, BinsOf: measurement.Seconds(value[float64](f.options, "interval"))})
}

// part shows what moved in a part of a test that goes on.
func (r *hostRun) part(p direct.Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Clear()
	if !r.told {
		r.summary.Row(r.current().Title, "live: what the receiving kernel acknowledged")
		r.told = true
	}
	r.summary.Part(p.From, p.To, float64(p.Bytes))
}

// event shows and keeps a step.
func (r *hostRun) event(e runner.Event) {
	r.progress.Event(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	title := e.Trial.Test
	if test, ok := r.test(e.Trial.Test); ok {
		title = test.Title
	}
	if e.Finished == nil {
		var now measurement.Progress
		if e.Live != nil {
			now = *e.Live
		}
		r.head.Planned = e.Planned
		r.live.Draw(fmt.Sprintf("  %s left  %s  %s", words.Clock(e.Left-now.Elapsed.Duration()), title, words.Live(now.Throughput, now.RTT)))
		return
	}
	r.live.Clear()
	r.head.Test.Tests, r.head.Planned = nil, e.Planned
	for _, s := range r.plan.Steps() {
		r.head.Test.Tests = append(r.head.Test.Tests, s.Test)
	}
	if r.store != nil {
		// At once, should this run be killed; an error is told at the end.
		_ = r.store.SetHead(r.head)
	}
	test, _ := r.test(e.Trial.Test)
	test = r.numbered(test, e.Trial.Block)
	r.summary.Trial(test, *e.Finished, r.told)
	if moved := r.watch.Failed(); moved.Bytes > 0 {
		r.summary.Row(test.Title+", until then", acknowledged(moved))
	}
	r.told = false
}

// stopped shows what there is of a test that was stopped.
func (r *hostRun) stopped(s *direct.Stopped) {
	test := r.current()
	test.Title += ", stopped"
	switch {
	case s == nil:
	case s.Whole:
		r.summary.Trial(test, measurement.Trial{Outcome: s.Outcome, Gate: measurement.Gate{Passed: true}}, r.told)
	case s.Moved.Bytes > 0:
		r.summary.Row(test.Title, acknowledged(s.Moved))
	}
}

// acknowledged is what moved in a test that did not come to its end.
func acknowledged(p direct.Part) string {
	return words.Rate(float64(p.Bytes)*8/p.To.Seconds()) + fmt.Sprintf(" acknowledged in %.2f s, its start included", p.To.Seconds())
}

// test is a test that was begun, or done before.
func (r *hostRun) test(name string) (result.TestInfo, bool) {
	steps := r.plan.Steps()
	i := slices.IndexFunc(steps, func(s survey.Step) bool { return s.Test.Name == name })
	if i < 0 {
		test, _, ok := r.plan.Current()
		return test, ok
	}
	return steps[i].Test, true
}

// current is the test under way, with the title of its row.
func (r *hostRun) current() result.TestInfo {
	test, block, _ := r.plan.Current()
	return r.numbered(test, block)
}

// numbered is a test whose title says which of several blocks it is of.
func (r *hostRun) numbered(test result.TestInfo, block int) result.TestInfo {
	if r.head.Blocks > 1 {
		test.Title += fmt.Sprintf(" (%d/%d)", block, r.head.Blocks)
	}
	return test
}

// end shows and keeps the result of what was done.
func (r *hostRun) end(ctx context.Context, runErr error) error {
	f := r.flags
	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	r.stopped(r.watch.Stopped())
	r.head.Notes = r.notes(ctx)
	result, err := r.result(ctx)
	if result == nil {
		return errors.Join(runErr, err)
	}
	if r.store != nil {
		defer runs.TellReport(r.Streams, r.store.Dir(), err)
	}
	if f.json {
		err = errors.Join(err, data.Write(r.Out, result))
	} else {
		err = errors.Join(err, r.summary.End(result))
	}
	if r.head.Blocks > 1 && !f.json {
		fmt.Fprintln(r.Out)
		err = errors.Join(err, f.print(r.Out, result))
	}
	failed := 0
	for _, t := range result.Trials {
		if !t.Gate.Passed {
			failed++
		}
	}
	switch {
	case stopped:
		err = errors.Join(fmt.Errorf("stopped after %s", quantity.Count(len(result.Trials), "test")), err)
	case runErr != nil:
		err = errors.Join(runErr, err)
	case failed > 0:
		err = errors.Join(fmt.Errorf("%d of %d tests gave no result that counts", failed, len(result.Trials)), err)
	}
	return err
}

// print prints the report of tests that were repeated.
func (f *testFlags) print(w io.Writer, r *result.Result) error {
	if f.markdown {
		return markdown.Write(w, r)
	}
	return runs.Print(w, r, f.verbose, f.out != "")
}

// notes is what a reader must know of the tests as a whole.
func (r *hostRun) notes(ctx context.Context) []string {
	f, done, isProfile := r.flags, r.plan.Steps(), r.head.Test.Profile
	var notes []string
	if step, ok := survey.Unserved(done, isProfile); ok {
		note := fmt.Sprintf("No server could be used at %s, port %d: %s.", r.to.Name, r.to.Port, f.remedy(step))
		if step.NoServer != probe.Unauthorized && step.NoServer != probe.Protocol { // nothing answered
			note += f.others(ctx, r.to, r.at)
		}
		notes = append(notes, note)
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

// remedy is what to do where the server that a test needs cannot be used.
func (f *testFlags) remedy(step survey.Step) string {
	reason, stock, ftp := step.NoServer, step.Test.Spec.Tool == measurement.IPerf3, value[string](f.options, "ftp-server") != ""
	what, start, other := "a hopbench serve of this version", "run hopbench serve (see its --help about tokens)", "; for a stock iperf3 server add --iperf3"
	switch {
	case stock:
		what, start, other = "an iperf3 server", "run iperf3 -s, or hopbench serve --iperf3-open", ""
	case ftp:
		what, start, other = "an FTP server", "start the FTP server", ""
	case value[bool](f.options, "iperf3"): // which other tests use
		what, other = what+", which "+string(step.Test.Spec.Kind)+" needs", ""
	}
	switch {
	case reason == probe.Unauthorized && ftp:
		return "it does not let this user in; --ftp-user and --ftp-password-file name another"
	case reason == probe.Unauthorized && stock:
		return "it lets no iperf3 client in without a proof; a hopbench serve with a token needs --iperf3-open, or leave --iperf3 out here"
	case reason == probe.Unauthorized && f.TokenFile == "":
		return "it asks for a token; give --token-file with the file that its hopbench serve has"
	case reason == probe.Unauthorized:
		return "its token is not that of " + f.TokenFile + ", or it has none; both ends need the same, or neither (leave --token-file and " + base.TokenFileEnv + " out)"
	case reason == probe.Protocol:
		return "what answers at that port is not " + what + other
	case reason == probe.Local:
		return "this host could not connect, see above"
	case reason == probe.Refused:
		return "on that host, " + start + other
	}
	return "on that host, " + start + ", and let TCP to that port through any firewall between"
}

// commandOf is the command line that repeats a command: its arguments and the
// flags that were given, but for those that only say what becomes of the result.
func commandOf(c *cobra.Command, args []string) []string {
	words := append(strings.Fields(c.CommandPath()), args...)
	c.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "json", "markdown", "verbose", "quiet", "out", "events":
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			if flag.Value.Type() == "stringSlice" { // whose values stand between commas
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, value := range values {
			words = append(words, "--"+flag.Name+"="+value)
		}
	})
	return words
}
