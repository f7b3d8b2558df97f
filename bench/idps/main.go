// Command idps shows what an idps hop costs that is switched off: it holds
// a path through one against the same path without the hop, and against the
// same path with a router in its place, which is what an appliance without
// inspection is. In every block each path gets every test once, in random order;
// ratios are of pairs within blocks, with their 95 % intervals. Nothing limits
// the rate, so that a throughput is what the processors can do.
//
// Its exit status is 1 when the hop that is off costs more than the router, beyond
// chance and by as much as matters.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/words"
)

// The paths. Each has one link that is a process, with the same delay.
const (
	without = "without"
	router  = "router"
	off     = "idps-off"
)

const text = `
format: hopbench.experiment/1
name: idps-off
endpoints:
  - {name: client}
  - {name: server}
source: client
destination: server
baseline: without
paths:
  - name: without
    title: without the hop
    hops:
      - {type: cable, delay: 250us}
  - name: router
    title: a router in its place
    hops:
      - {type: router, name: hop, delay: 250us}
  - name: idps-off
    title: IDPS off
    hops:
      - {type: idps, name: hop, delay: 250us, mode: "off"}
tests:
  - {name: flows-1, title: 1 flow, kind: tcp, duration: 1s, max_warmup: 500ms}
  - {name: flows-8, title: 8 flows, kind: tcp, flows: 8, duration: 1s, max_warmup: 500ms}
  - {name: latency, kind: rr, duration: 500ms}
`

// question is one path held against another.
type question struct{ path, baseline string }

// questions are in the order in which they are printed. What the hop costs
// against none is what any hop that forwards costs, and the rest.
var questions = []question{{off, router}, {off, without}, {router, without}}

func main() {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == runner.AgentCommand[0] {
		if err := serveAgent(); err != nil {
			fmt.Fprintln(os.Stderr, "idpsbench:", err)
			os.Exit(1)
		}
		return
	}
	pairs := flag.Int("pairs", 10, "blocks, each with one trial of every test on every path; fewer than 7 can claim nothing")
	duration := flag.Duration("duration", time.Second, "measured time of each throughput trial")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the order of trials")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	costs, err := run(ctx, experiment.Overrides{Blocks: *pairs, Duration: *duration}, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "idpsbench:", err)
		os.Exit(2)
	}
	if costs {
		fmt.Println("An idps that is off costs more than a router in its place.")
		os.Exit(1)
	}
}

func serveAgent() error {
	file := os.NewFile(3, "control")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("take the control connection: %w", err)
	}
	return errors.Join(file.Close(), agent.Serve(context.Background(), conn, agent.Options{}))
}

// kept holds the trials of a run in memory.
type kept struct{ trials []measurement.Trial }

func (k *kept) Put(_ context.Context, t measurement.Trial) error {
	k.trials = append(k.trials, t)
	return nil
}

func (k *kept) Trials(context.Context) ([]measurement.Trial, error) {
	return slices.Clone(k.trials), nil
}

// run measures and prints, and says whether the hop that is off costs more
// than a router.
func run(ctx context.Context, o experiment.Overrides, seed uint64) (costs bool, err error) {
	e, err := experiment.Load("idpsbench.yaml", []byte(text))
	if err != nil {
		return false, err
	}
	if e, err = e.With(o); err != nil {
		return false, err
	}
	plan := e.Plan(seed)
	build := func(ctx context.Context) (runner.Testbed, error) { return runner.NewLab(ctx, e) }
	testbed, err := build(ctx)
	if err != nil {
		return false, err
	}
	for _, fact := range testbed.Facts() {
		fmt.Println(fact)
	}
	fmt.Printf("%s, seed %d; the idps holds %s and is off\n", quantity.Count(e.Blocks, "block"), seed, quantity.Count(len(idps.Builtin().Rules), "rule"))
	keeper := &kept{}
	if err := runner.Run(ctx, runner.Options{Experiment: e, Plan: plan, Testbed: testbed, Build: build, Keeper: keeper}); err != nil {
		return false, err
	}
	for _, q := range questions {
		trials := slices.DeleteFunc(slices.Clone(keeper.trials), func(t measurement.Trial) bool { return t.Path != q.path && t.Path != q.baseline })
		analysis := analysis.Analyse(trials, e.TestInfos(), pathsOf(e, q), analysis.DefaultOptions())
		if err := show(e, q, analysis); err != nil {
			return false, err
		}
		if q.baseline == router && q.path == off {
			costs = slices.ContainsFunc(analysis.Costs, func(c result.Effect) bool { return c.Primary && c.Verdict == result.Costs })
		}
	}
	return costs, nil
}

// pathsOf are the two paths of a question, the baseline first.
func pathsOf(e *experiment.Experiment, q question) []result.PathInfo {
	var out []result.PathInfo
	for _, name := range []string{q.baseline, q.path} {
		for _, p := range e.PathInfos() {
			if p.Name == name {
				p.Baseline = name == q.baseline
				out = append(out, p)
			}
		}
	}
	return out
}

// show prints the answer to a question: ratios, their intervals and verdicts.
func show(e *experiment.Experiment, q question, a analysis.Analysis) error {
	paths := pathsOf(e, q)
	fmt.Printf("\n%s against %s\n", paths[1].Title, paths[0].Title)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TEST\tMETRIC\tPAIRS\tAGAINST\tMEASURED\tRATIO\t95 % INTERVAL\tVERDICT")
	for _, c := range a.Costs {
		metric, _ := measurement.MetricNamed(c.Metric)
		between := "too few pairs"
		if c.Low != nil && c.High != nil {
			between = fmt.Sprintf("[%s, %s]", quantity.Ratio(*c.Low), quantity.Ratio(*c.High))
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.Test, metric.Label, c.N,
			median(a, q.baseline, c, metric.Unit), median(a, q.path, c, metric.Unit), quantity.Ratio(c.Ratio), between, words.Verdict(c))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range (words.Names{}).Notes(a.Notes) {
		fmt.Println(note)
	}
	return nil
}

// median is that of a cell.
func median(a analysis.Analysis, path string, c result.Effect, unit measurement.Unit) string {
	for _, cell := range a.Cells {
		if cell.Path == path && cell.Test == c.Test && cell.Metric == c.Metric {
			return quantity.Format(cell.Median, unit)
		}
	}
	return "—"
}
