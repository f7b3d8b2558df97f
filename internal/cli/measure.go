package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/stats"
	"github.com/hopbench/hopbench/internal/survey"
)

// runFunc does one test; it is probe.Run but in tests.
type runFunc func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error)

// sequence is the tests to do, one after the other: a fixed list, or a profile,
// whose later tests depend on the earlier ones.
type sequence interface {
	Next(done []survey.Step) (measurement.TestInfo, bool)
	Left(done []survey.Step) measurement.Seconds
}

// list is the tests that flags named.
type list []measurement.TestInfo

func (l list) Next(done []survey.Step) (measurement.TestInfo, bool) {
	if len(done) == len(l) {
		return measurement.TestInfo{}, false
	}
	return l[len(done)], true
}

func (l list) Left(done []survey.Step) measurement.Seconds {
	var total measurement.Seconds
	for _, test := range l[len(done):] {
		total += test.Spec.ExpectedDuration()
	}
	return total
}

// sequence is the tests of the kinds chosen, or the profile when none is.
func (f *testFlags) sequence(kinds []measurement.Kind) (sequence, error) {
	if len(kinds) == 0 {
		spec := measurement.Spec{Kind: measurement.TCP}
		f.options.apply(&spec)
		return survey.Options{Base: measurement.Spec{DSCP: spec.DSCP, Device: spec.Device}, Duration: spec.Duration}, nil
	}
	var tests list
	for _, name := range kinds {
		spec, err := f.options.specOf(name)
		if err != nil {
			return nil, err
		}
		tests = append(tests, measurement.TestInfo{Name: string(name), Title: titleOf(spec), Spec: spec})
	}
	return tests, nil
}

// titleOf names a test for people.
func titleOf(spec measurement.Spec) string {
	title := map[measurement.Kind]string{
		measurement.TCP: quantity.Count(spec.Flows, "flow"), measurement.UDP: "UDP", measurement.PPS: "small packets",
		measurement.RR: "latency", measurement.CRR: "connections", measurement.Load: "RTT under load",
		measurement.FTP: "file in " + quantity.Count(spec.Flows, "segment"),
		measurement.MTU: "path MTU", measurement.Ping: "ping", measurement.Trace: "path",
	}[spec.Kind]
	switch {
	case spec.Kind == measurement.FTP && spec.Direction == measurement.Send:
		title = "file to the server"
	case spec.Kind == measurement.FTP:
	case spec.Direction == measurement.Receive:
		title += ", back"
	case spec.Direction == measurement.Both:
		title += ", both"
	}
	return title
}

// measureHost does the tests of a sequence and shows what they brought back. It
// shows what there is also when it was stopped.
func measureHost(ctx context.Context, s streams, f *testFlags, to target, todo sequence, run runFunc) error {
	request, err := f.prepare(ctx, to)
	if err != nil {
		return err
	}
	spareProcessor()
	out := s.out
	if f.json {
		out = io.Discard
	}
	result := hostResult(to.name, request.Target)
	summary := report.NewSummary(out, fmt.Sprintf("path to %s (%v)", to.name, request.Target),
		report.SummaryOptions{Verbose: f.verbose, Markdown: f.markdown, BinsOf: measurement.Seconds(value[float64](f.options, "interval"))})
	summary.Row("measured", fmt.Sprintf("%s   from %s   hopbench %s", result.Started.UTC().Format(time.RFC3339), result.Paths[0].Source, runner.Version()))
	m := &meter{live: newLiveLine(s.err, f.quiet), run: run, request: request, todo: todo}
	for m.next(ctx) {
		last := m.done[len(m.done)-1]
		result.Tests = append(result.Tests, last.Test)
		result.Trials = append(result.Trials, last.Trial)
		summary.Trial(last.Test, last.Trial)
	}
	result.Ended = time.Now()
	result.Complete = ctx.Err() == nil
	result.Planned = len(m.done)
	result.Notes = f.notes(to, todo, m.done)
	if _, ok := todo.(survey.Options); ok {
		result.RFC6349 = survey.Ratings(value[float64](f.options, "rate"), m.done)
	}
	result.Cells = stats.Analyse(result.Trials, result.Tests, result.Paths, stats.DefaultOptions()).Cells
	if f.json {
		err = report.JSON(s.out, result)
	} else {
		err = summary.End(result)
	}
	if !result.Complete {
		return errors.Join(fmt.Errorf("stopped after %s", quantity.Count(len(m.done), "test")), err)
	}
	if failed := m.failed(); failed > 0 {
		return errors.Join(fmt.Errorf("%d of %d tests gave no result that counts", failed, len(m.done)), err)
	}
	return err
}

// notes is what a reader must know of the tests as a whole.
func (f *testFlags) notes(to target, todo sequence, done []survey.Step) []string {
	var notes []string
	for _, s := range done {
		if s.NoServer {
			notes = append(notes, fmt.Sprintf("No server could be used at %s, port %d: on that host, run hopbench serve (see its --help about tokens); of a stock iperf3 server, ask --iperf3 here.", to.name, to.port))
			break
		}
	}
	if _, ok := todo.(survey.Options); !ok {
		return notes
	}
	if reason := survey.FillReason(done); reason != "" {
		notes = append(notes, "The path is filled by "+reason+".")
	}
	if value[string](f.options, "device") != "" {
		notes = append(notes, "The hops were traced without the interface that was asked for, which trace does not take.")
	}
	return notes
}

// meter does one test after the other.
type meter struct {
	live    *liveLine
	run     runFunc
	request probe.Request
	todo    sequence
	done    []survey.Step
}

// next does the next test; false when there is none, or ctx ended.
func (m *meter) next(ctx context.Context) bool {
	test, ok := m.todo.Next(m.done)
	if !ok || ctx.Err() != nil {
		return false
	}
	left := m.todo.Left(m.done).Duration()
	request := m.request
	request.ID = fmt.Sprintf("%s-%d", test.Name, time.Now().UnixNano())
	request.Spec = test.Spec
	start := time.Now()
	m.live.draw(fmt.Sprintf("  %s left  %s", clock(left), test.Title))
	outcome, err := m.run(ctx, request, func(p measurement.Progress) {
		m.live.draw(fmt.Sprintf("  %s left  %s%s", clock(left-time.Since(start)), test.Title, liveValue(&p)))
	})
	m.live.clear()
	if ctx.Err() != nil {
		return false
	}
	m.done = append(m.done, survey.Step{Test: test, NoServer: noServer(err), Trial: measurement.Trial{
		ID: "b01-path-" + test.Name, Block: 1, Order: len(m.done) + 1, Path: pathName, Test: test.Name,
		Start: start, Elapsed: measurement.SecondsOf(time.Since(start)),
		Gate:    runner.Judge(test.Spec, outcome, measurement.Fingerprint{Matches: true}, runner.Limits{BusyWarns: true, FewWarn: true}, err),
		Outcome: outcome,
	}})
	return true
}

func (m *meter) failed() int {
	n := 0
	for _, s := range m.done {
		if !s.Trial.Gate.Passed {
			n++
		}
	}
	return n
}

// noServer says that a test failed in a way in which every other test that
// needs the server would, too.
func noServer(err error) bool {
	var failed *probe.Error
	var dial *net.OpError
	var version *protocol.VersionError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial" && strings.HasPrefix(dial.Net, "tcp"):
		return true
	case errors.As(err, &failed) && failed.Reason == probe.Unauthorized:
		return true
	}
	return errors.As(err, &version) || errors.Is(err, protocol.ErrMalformed)
}

// pathName is the one path that test measures.
const pathName = "path"

// hostResult is the frame of the result, in the format of a run.
func hostResult(host string, to netip.AddrPort) *measurement.Result {
	source, err := os.Hostname()
	if err != nil {
		source = "this host"
	}
	return &measurement.Result{
		Format:      measurement.ResultFormat,
		Experiment:  measurement.ExperimentInfo{Name: "test", Title: "the path to " + host, Scale: 1, Baseline: pathName, Blocks: 1},
		Testbed:     measurement.Testbed{Kind: "hosts"},
		Environment: runner.HostEnvironment(),
		Started:     time.Now(),
		Paths: []measurement.PathInfo{{
			Name: pathName, Baseline: true, Source: source, Dest: to.String(), Hops: []measurement.HopInfo{},
		}},
		Tests: []measurement.TestInfo{},
		Costs: []measurement.Cost{},
	}
}
