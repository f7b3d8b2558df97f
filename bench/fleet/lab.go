package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// The roles of this program in the part that measures a lab as a fleet.
const (
	// labRole compares an experiment in a lab with the same namespaces as machines of a
	// fleet, each a process of hopbench that joins a coordinator in a node of its own.
	labRole = "lab"
	// timedRole runs a program and writes down what it took: FILE PROGRAM ARGUMENT…
	timedRole = "timed"
)

// labOptions are the command line of that part.
type labOptions struct {
	experiment string
	pairs      int
	duration   time.Duration
	warmup     time.Duration
	flows      int
	whole      string
	seed       uint64
	hopbench   string
}

func parseLab(arguments []string) (o labOptions, err error) {
	flags := flag.NewFlagSet("fleet "+labRole, flag.ContinueOnError)
	flags.StringVar(&o.experiment, "experiment", "firewall-fleet", "the bundled experiment")
	flags.IntVar(&o.pairs, "pairs", 10, "runs by each, in pairs of random order")
	flags.DurationVar(&o.duration, "duration", 15*time.Second, "measured time of each trial")
	flags.DurationVar(&o.warmup, "warmup", 12*time.Second, "longest warm-up of each trial: flows that meet a full firewall take some 10 s until they carry what it lets pass")
	flags.IntVar(&o.flows, "flows", 64, "flows of each client")
	flags.StringVar(&o.whole, "whole", "", "instead, run the experiment as it is on the fleet, but for the duration of its trials, and keep it in this folder")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<53), "seed of every order")
	flags.StringVar(&o.hopbench, "hopbench", "./hopbench", "the program that runs on the machines")
	if err = flags.Parse(arguments); err != nil {
		return o, err
	}
	if o.pairs < 1 || o.flows < 1 || o.duration <= 0 || o.warmup <= 0 {
		return o, errors.New("-pairs, -flows, -duration and -warmup must be more than 0")
	}
	if o.whole != "" {
		if o.whole, err = filepath.Abs(o.whole); err != nil {
			return o, err
		}
	}
	o.hopbench, err = filepath.Abs(o.hopbench)
	return o, err
}

// oneTest is an experiment file with one test in the place of all, and nothing published: a
// run of it is to be short.
func oneTest(text string, o labOptions) (string, error) {
	const tests = "\ntests:\n"
	head, _, found := strings.Cut(text, tests)
	if !found {
		return "", fmt.Errorf("experiment %s has no tests", o.experiment)
	}
	return head + tests + fmt.Sprintf("  - {name: flows, kind: tcp, flows: %d, duration: %s, max_warmup: %s}\n", o.flows, o.duration, o.warmup), nil
}

// inLab measures an experiment by today's runner and as a fleet, and compares what they
// carry.
func inLab(ctx context.Context, arguments []string) (err error) {
	o, err := parseLab(arguments)
	if err != nil {
		return err
	}
	whole, err := experiments.Read(o.experiment)
	if err != nil {
		return err
	}
	if o.whole != "" {
		return asItIs(ctx, o, whole)
	}
	text, err := oneTest(string(whole), o)
	if err != nil {
		return err
	}
	e, err := experiment.Load(o.experiment+".yaml", []byte(text))
	if err != nil {
		return err
	}
	fleet, err := newLabFleet(ctx, o, []byte(text))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	random := rand.New(rand.NewPCG(o.seed, 3))
	ratios := map[string][]float64{} // logarithms, by path
	var spent []cost
	unsound := [2]int{}
	for pair := range o.pairs {
		labFirst := random.IntN(2) == 0
		more := []string{"--seed", fmt.Sprint(random.Uint64N(1 << 53)), "--blocks", "1"}
		var trials [2][]measurement.Trial // by the lab, by the fleet
		for turn := range 2 {
			if labFirst == (turn == 0) {
				trials[0], err = fleet.ofLab(ctx, fmt.Sprint("lab-", pair), more...)
			} else {
				var c cost
				trials[1], c, err = fleet.run(ctx, fmt.Sprint("fleet-", pair), more...)
				spent = append(spent, c)
			}
			if err != nil {
				return err
			}
		}
		for i, t := range trials[0] {
			far := trials[1][slices.IndexFunc(trials[1], func(f measurement.Trial) bool { return f.ID == t.ID })]
			a, b := t.Metrics[carried], far.Metrics[carried]
			fmt.Fprintf(os.Stderr, "pair %d, %s: %.4g Mbit/s in the lab, sent by %s, %.4g Mbit/s as a fleet, sent by %s\n", pair+1, t.Path, a/1e6, t.Effective["send_method"], b/1e6, far.Effective["send_method"])
			for k, one := range []measurement.Trial{t, far} {
				if !one.Gate.Passed {
					unsound[k]++
					fmt.Fprintf(os.Stderr, "  does not count %s: %+v\n", []string{"in the lab", "as a fleet"}[k], one.Gate.Findings)
				}
			}
			if a > 0 && b > 0 {
				ratios[t.Path] = append(ratios[t.Path], math.Log(b/a))
			} else {
				return fmt.Errorf("trial %s of pair %d carried nothing: %+v, %+v", trials[0][i].ID, pair+1, t.Gate, far.Gate)
			}
		}
	}
	fmt.Printf("%s, %d pairs of machines with %d flows each, %v a trial, seed %d\n\n| path | as a fleet / in the lab | 95 %% interval | pairs of runs |\n|---|---|---|---|\n",
		o.experiment, e.Pairs, o.flows, o.duration, o.seed)
	for _, p := range e.Paths {
		printRatio(p.Name, ratios[p.Name])
	}
	fmt.Printf("\nTrials that do not count: %d in the lab, %d as a fleet.\n", unsound[0], unsound[1])
	printCost(spent, 2*e.Pairs)
	return nil
}

// carried is what is compared.
const carried = "goodput_bits_per_second"

func printRatio(path string, logs []float64) {
	walsh := statistics.WalshAverages(logs)
	between := "too few"
	if i, ok := statistics.SignedRankInterval(walsh, len(logs), 0.95); ok {
		between = fmt.Sprintf("%.4f to %.4f", math.Exp(i.Low), math.Exp(i.High))
	}
	fmt.Printf("| %s | %.4f | %s | %d |\n", path, math.Exp(statistics.MedianOfSorted(walsh)), between, len(logs))
}

// ofLab does a run in a lab, by the same program and in the same way.
func (f *labFleet) ofLab(ctx context.Context, folder string, more ...string) ([]measurement.Trial, error) {
	c := exec.CommandContext(ctx, f.hopbench, append([]string{"run", labtest.ExperimentFile, "-q", "-o", folder}, more...)...)
	c.Dir = f.Folder
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	if said, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run in a lab: %w: %s", err, said)
	}
	return readTrials(filepath.Join(f.Folder, folder))
}

func readTrials(folder string) ([]measurement.Trial, error) {
	document, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return nil, err
	}
	r, _, err := result.Decode(document)
	if err != nil {
		return nil, err
	}
	return r.Trials, nil
}

// cost is what coordinator and broker took for a run.
type cost struct {
	// Seconds of the run, and of CPU time.
	Took, Processor float64
	// Bytes that machines sent to the coordinator and it to them, with headers.
	received, sent uint64
}

func printCost(all []cost, machines int) {
	var of [4][]float64
	for _, c := range all {
		each := c.Took * float64(machines)
		for i, v := range []float64{float64(c.received) / each, float64(c.sent) / each, 100 * c.Processor / c.Took, c.Took} {
			of[i] = append(of[i], v)
		}
	}
	fmt.Printf("Coordinator and broker, in the middle of %d runs of %.0f s, joining included: %.0f bytes/s from each of %d machines and %.0f to it, %.1f %% of a CPU.\n",
		len(all), statistics.Median(of[3]), statistics.Median(of[0]), machines, statistics.Median(of[1]), statistics.Median(of[2]))
}

// labFleet is a lab whose machines join while a run goes on.
type labFleet struct {
	*labtest.Fleet
	self, hopbench string
}

func newLabFleet(ctx context.Context, o labOptions, text []byte) (*labFleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := labtest.NewFleet(ctx, text)
	if err != nil {
		return nil, err
	}
	return &labFleet{f, self, o.hopbench}, nil
}

// run does a run as a fleet: machines are there for that long.
func (f *labFleet) run(ctx context.Context, folder string, more ...string) (_ []measurement.Trial, c cost, err error) {
	var agents []*labtest.Program
	defer func() {
		for _, a := range agents {
			a.Kill()
		}
	}()
	folder = filepath.Join(f.Folder, folder)
	received, sent, err := f.Counters(ctx)
	if err != nil {
		return nil, c, err
	}
	took := folder + ".took"
	coordinator, err := f.Start(labtest.CoordinatorNode, append([]string{f.self, timedRole, took, f.hopbench, "run", labtest.ExperimentFile, "--testbed", labtest.TestbedFile, "-q", "-o", folder}, more...)...)
	if err != nil {
		return nil, c, err
	}
	defer coordinator.Kill()
	for _, m := range f.Machines {
		a, err := f.Start(m.Name, append([]string{f.hopbench}, m.Agent(net.JoinHostPort(m.Coordinator.String(), fmt.Sprint(join.DefaultPort)), labtest.JoinFile)...)...)
		if err != nil {
			return nil, c, err
		}
		agents = append(agents, a)
	}
	select {
	case <-coordinator.Done():
		err = coordinator.Err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, c, errors.Join(err, errors.New(agents[0].Said()))
	}
	c, err = readCost(took)
	if err != nil {
		return nil, c, err
	}
	c.received, c.sent, err = f.Counters(ctx)
	if err != nil {
		return nil, c, err
	}
	c.received, c.sent = c.received-received, c.sent-sent
	trials, err := readTrials(folder)
	return trials, c, err
}

// asItIs runs a whole experiment once, in shorter trials, and keeps its folder.
func asItIs(ctx context.Context, o labOptions, text []byte) (err error) {
	f, err := newLabFleet(ctx, o, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const name = "whole"
	trials, c, err := f.run(ctx, name, "--duration", o.duration.String(), "--seed", fmt.Sprint(o.seed))
	if err != nil {
		return err
	}
	fmt.Printf("%d trials in %s\n", len(trials), o.whole)
	printCost([]cost{c}, len(f.Machines))
	return os.CopyFS(o.whole, os.DirFS(filepath.Join(f.Folder, name)))
}

// timed runs a program and writes down what it took.
func timed(ctx context.Context, arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("usage: timed FILE PROGRAM ARGUMENT…")
	}
	began := time.Now()
	c := exec.CommandContext(ctx, arguments[1], arguments[2:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		return err
	}
	text, jsonErr := json.Marshal(cost{Took: time.Since(began).Seconds(), Processor: (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()})
	return cmp.Or(err, jsonErr, os.WriteFile(arguments[0], text, 0o600))
}

func readCost(file string) (c cost, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}
