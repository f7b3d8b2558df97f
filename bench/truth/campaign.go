package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/neighbour"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

// campaign measures runs of designs and keeps their raw trials in a folder.
type campaign struct {
	dir  string
	seed uint64
	log  io.Writer
	// redraw begins a line anew on a terminal, and is empty elsewhere.
	redraw string
	// commit is the version that measures.
	commit string
	// planned is how many runs the part has, begun how many it has begun, measured
	// how many of these were not there before, within spent.
	planned, begun, measured int
	spent                    time.Duration
	// trials are those of all runs, which took so long, traffic of each version.
	trials   int
	took     measurement.Seconds
	versions map[string]bool
}

// kept is what a run left behind.
type kept struct {
	head   store.Head
	trials []measurement.Trial
}

// planter does something to a lab before a trial, and returns what undoes it
// after the trial, nil for nothing.
type planter func(ctx context.Context, b *bed, t experiment.PlannedTrial) (undo func() error, err error)

// run does what is not there yet of one run of a design. Plant may be nil.
func (c *campaign) run(ctx context.Context, d design, number int, plant planter) (kept, error) {
	return c.only(ctx, d.name, d.text(), number, plant, func(experiment.PlannedTrial) bool { return true })
}

// only does those trials of one run of an experiment that are wanted.
func (c *campaign) only(ctx context.Context, name, text string, number int, plant planter, wanted func(experiment.PlannedTrial) bool) (k kept, err error) {
	c.begun++
	seed := c.seed*1000 + uint64(number)
	head := store.Head{Experiment: text, File: name + ".yaml", Argument: name + ".yaml", Name: name, Seed: seed, Started: time.Now().Round(time.Millisecond)}
	e, plan, err := runner.Prepare(head)
	if err != nil {
		return kept{}, err
	}
	plan.Trials = slices.DeleteFunc(plan.Trials, func(t experiment.PlannedTrial) bool { return !wanted(t) })
	head.Planned = len(plan.Trials)
	dir := filepath.Join(c.dir, fmt.Sprintf("%s-%02d", name, number))
	st, err := openRun(dir, &head)
	if err != nil {
		return kept{}, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if n, _, err := st.Count(ctx); err != nil {
		return kept{}, err
	} else if n < len(plan.Trials) {
		begin := time.Now()
		if err := c.measure(ctx, st, &head, e, plan, plant); err != nil {
			return kept{}, err
		}
		c.measured++
		c.spent += time.Since(begin)
	}
	trials, err := st.Trials(ctx)
	c.trials += len(trials)
	for _, t := range trials {
		c.took += t.Elapsed
	}
	c.versions[head.Environment[commitKey]] = true
	return kept{head, trials}, err
}

// commitKey is where the environment of a run has the version that measured it.
const commitKey = "commit"

// openRun opens the run in a folder, or begins it there. Head becomes the one
// that is kept.
func openRun(dir string, head *store.Head) (*store.Store, error) {
	st, err := store.Resume(dir)
	if errors.Is(err, store.ErrNoRun) || errors.Is(err, fs.ErrNotExist) {
		return store.Create(dir, *head)
	}
	if err != nil {
		return nil, err
	}
	own, err := st.Head()
	if err == nil && (own.Experiment != head.Experiment || own.Seed != head.Seed) {
		err = fmt.Errorf("%s has a run of another experiment or seed; remove it, or use another -out", dir)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	*head = own
	return st, nil
}

func (c *campaign) measure(ctx context.Context, st *store.Store, head *store.Head, e *experiment.Experiment, plan experiment.Plan, plant planter) (err error) {
	b := &bed{}
	first, err := b.build(ctx, e)
	if err != nil {
		return err
	}
	head.Testbed, head.Environment = first.Info(), hostinfo.Machine()
	maps.Copy(head.Environment, first.Environment())
	head.Environment[commitKey] = c.commit
	if err := st.SetHead(*head); err != nil {
		return errors.Join(err, first.Close())
	}
	presence, err := neighbour.Join(neighbour.Run{Experiment: head.Name, Started: head.Started})
	if err != nil {
		return errors.Join(err, first.Close())
	}
	defer func() { err = errors.Join(err, presence.Leave()) }()
	var undo func() error
	var planting error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = runner.Run(ctx, runner.Options{
		Planner: runner.Fixed(plan), Testbed: first, Keeper: st, Others: presence.Alive,
		Build: func(ctx context.Context) (testbed.Testbed, error) { return b.build(ctx, e) },
		OnEvent: func(event runner.Event) {
			switch {
			case event.Rebuilt != nil:
				fmt.Fprintf(c.log, "%s%s: built again: %v\n", c.redraw, head.Name, event.Rebuilt)
			case event.Finished != nil:
				if undo != nil {
					planting = errors.Join(planting, undo())
					undo = nil
				}
			case event.Live == nil && plant != nil:
				var err error
				if undo, err = plant(ctx, b, event.Trial); err != nil {
					planting = errors.Join(planting, fmt.Errorf("plant in trial %s: %w", event.Trial.ID, err))
				}
			}
			if planting != nil {
				cancel()
			}
			c.progress(head.Name, event)
		},
	})
	if undo != nil {
		_ = undo() // what it undoes in the lab went with the lab; what is outside must not outlive the run
	}
	if planting != nil {
		return planting
	}
	return err
}

// progress writes one line on a run's progress, which a terminal redraws after each
// trial; elsewhere it is written at the end of a run.
func (c *campaign) progress(name string, event runner.Event) {
	end := ""
	if c.redraw == "" {
		if event.Finished == nil || event.Done < event.Planned {
			return
		}
		end = "\n"
	}
	left := event.Left
	if c.measured > 0 {
		left += time.Duration(c.planned-c.begun) * c.spent / time.Duration(c.measured)
	} else if done := event.Done; done > 0 {
		left += time.Duration(c.planned-c.begun) * event.Left * time.Duration(event.Planned) / time.Duration(max(event.Planned-done, 1))
	}
	fmt.Fprintf(c.log, "%s%s: run %d of %d, trial %d of %d, about %v left in this part%s", c.redraw, name, c.begun, c.planned, event.Done, event.Planned, left.Round(time.Second), end)
}

// bed is the lab of a run, with ways to run programs in its nodes and to tamper with its
// agents.
type bed struct {
	lab       *testbedlab.Lab
	name      string
	built     int
	server    string // name of the lab in which iperf3 listens
	tampering tampering
}

func (b *bed) build(ctx context.Context, e *experiment.Experiment) (testbed.Testbed, error) {
	l, err := testbedlab.New(ctx, e)
	if err != nil {
		return nil, err
	}
	b.built++
	b.lab, b.name = l, fmt.Sprintf("truth-%d-%s-%d", os.Getpid(), e.Name, b.built)
	if err := l.Publish(b.name); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return tampered{l, b}, nil
}

// exec runs a program in a node and returns what it printed. A status other
// than 0 is an error.
func (b *bed) exec(ctx context.Context, node string, argv ...string) (string, error) {
	out, err := os.CreateTemp("", "truth")
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Close() }()
	defer func() { _ = os.Remove(out.Name()) }()
	code, err := lab.ExecIn(ctx, b.name, node, lab.Command{Argv: argv, Stdout: out, Stderr: out})
	if err != nil {
		return "", fmt.Errorf("run %s in %s: %w", strings.Join(argv, " "), node, err)
	}
	text, err := os.ReadFile(out.Name())
	if err == nil && code != 0 {
		err = fmt.Errorf("%s in %s ended with status %d: %s", strings.Join(argv, " "), node, code, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// laid is the path of a name.
func (b *bed) laid(name string) lab.Path {
	all := b.lab.Laid()
	return all[slices.IndexFunc(all, func(p lab.Path) bool { return p.Name == name })]
}

// node is that of the last hop of a path that is no link.
func (b *bed) node(path string) (string, error) {
	for _, p := range b.lab.Laid() {
		if p.Name == path && len(p.HopNodes) > 0 {
			return p.HopNodes[len(p.HopNodes)-1].Node, nil
		}
	}
	return "", fmt.Errorf("path %s has no hop with a node", path)
}

// judge analyses trials of a run as if d were its experiment.
func (k kept) judge(d design) (*result.Result, error) {
	head := k.head
	head.Experiment, head.Blocks = d.text(), 0
	return runner.Result(head, d.trialsOf(k.trials))
}

// repeat calls once for each planned run, numbered from 0, until one fails, and
// returns how many were complete.
func (c *campaign) repeat(ctx context.Context, once func(number int) error) (complete int, err error) {
	for number := range c.planned {
		if err := once(number); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return complete, err
		}
		complete++
	}
	return complete, nil
}
