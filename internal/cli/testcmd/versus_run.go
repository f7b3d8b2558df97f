package testcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/summary"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/direct"
)

// wayKey is what makes a path on the network.
type wayKey struct {
	target netip.AddrPort
	source netip.Addr
	device string
	dscp   int
}

// paths finds the addresses of the ways. Two that are the same path are refused.
func (c *comparison) paths(ctx context.Context) ([]testbed.Path, error) {
	// A trace takes neither an interface nor a code point, and there is none elsewhere.
	traced := runtime.GOOS == "linux" && !differ(c.ways, deviceOf) && !differ(c.ways, dscpOf)
	var out []testbed.Path
	names := map[wayKey]string{}
	for i, w := range c.ways {
		request, err := c.flags.prepare(ctx, w.Target, w.bind)
		if err != nil {
			return nil, err
		}
		if w.device != "" {
			if _, err := net.InterfaceByName(w.device); err != nil {
				return nil, base.Usage(fmt.Errorf("%q is no network interface of this host: %w", w.device, err))
			}
		}
		name, key := c.e.Paths[i].Name, wayKey{request.Target, request.Source, w.device, w.dscp}
		if same, known := names[key]; known {
			return nil, base.Usage(fmt.Errorf("%s and %s are the same path: both are %v; tell them apart by HOST, :PORT, bind=, device= or dscp=", same, name, request.Target))
		}
		names[key] = name
		if differ(c.ways, deviceOf) {
			request.Spec.Device = w.device
		}
		if differ(c.ways, dscpOf) {
			request.Spec.DSCP = w.dscp
		}
		path := direct.Path(name, w.Name, request)
		path.Pairs[0].Expect.Traced = traced
		out = append(out, path)
	}
	return out, nil
}

// infos are what a result says of the paths.
func (c *comparison) infos(paths []testbed.Path) []result.PathInfo {
	out := make([]result.PathInfo, len(paths))
	for i, p := range paths {
		pair, w := p.Pairs[0], c.ways[i]
		source := pair.Source
		if w.bind != "" {
			source += ", from " + w.bind
		}
		if w.device != "" {
			source += ", interface " + w.device
		}
		if w.dscp != 0 {
			source += fmt.Sprintf(", DSCP %d", w.dscp)
		}
		out[i] = result.PathInfo{Name: p.Name, Baseline: i == 0, Source: source, Dest: pair.Request.Target.String(), Hops: []result.HopInfo{}}
	}
	return out
}

// versusRun is a comparison under way.
type versusRun struct {
	*kept
	e        *experiment.Experiment
	plan     experiment.Plan
	planner  *whileServed
	progress *live.Progress
	// trials shows each as it comes in, nil where nobody asked for that.
	trials *summary.Summary
}

// measure does the comparison and reports it. It reports what there is also when it was
// stopped.
func (c *comparison) measure(ctx context.Context, s base.Streams, run direct.RunFunc) (err error) {
	f := c.flags
	paths, err := c.paths(ctx)
	if err != nil {
		return err
	}
	base.SpareProcessor()
	bed := direct.New(run, paths...)
	head := f.head(c.e.Blocks, bed, store.Test{Title: c.e.Name, Paths: c.infos(paths), Tests: c.e.TestInfos()})
	r := &versusRun{e: c.e, plan: c.e.Plan(head.Seed)}
	r.planner = &whileServed{Planner: runner.Fixed(r.plan)}
	r.progress = live.NewProgress(s.Err, f.quiet, f.stream)
	defer r.progress.End()
	head.Planned = len(r.plan.Trials)
	if r.kept, err = keep(f.out, head); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if !f.json && (f.verbose || value[float64](f.options, "interval") > 0) {
		r.trials = f.summary(s.Out, c.e.Name)
	}
	r.progress.Begin(r.e, r.plan, f.out, 0)
	others := c.watch(&r.head, r.e.Name, r.progress)
	defer others.Leave()
	runErr := runner.Run(ctx, runner.Options{
		Planner: r.planner, Testbed: bed, Keeper: r.keeper, Others: others.Since, Unlimited: true,
		OnEvent: func(e runner.Event) {
			r.event(e)
			if e.Finished != nil && others.Look() && r.store != nil {
				// At once, should this run be killed; an error is told at the end.
				_ = r.store.SetHead(r.head)
			}
		},
	})
	others.Leave()
	r.progress.End()
	early := cmp.Or(runErr, ctx.Err())
	err = r.end(ctx, s, f, runErr)
	r.progress.Ended(early) // the report is written
	return err
}

// event shows a step.
func (r *versusRun) event(e runner.Event) {
	r.progress.Event(e)
	if e.Finished == nil || r.trials == nil {
		return
	}
	for _, test := range r.head.Test.Tests {
		if test.Name == e.Trial.Test {
			test.Title = fmt.Sprintf("%s, %s (%d/%d)", test.Title, e.Trial.Path, e.Trial.Block, r.e.Blocks)
			r.progress.Above(func() { r.trials.Trial(test, *e.Finished, false) })
		}
	}
}

// end reports what was measured, and says why that is not all.
func (r *versusRun) end(ctx context.Context, s base.Streams, f *testFlags, runErr error) error {
	stopped := ctx.Err() != nil
	result, err := r.result(context.WithoutCancel(ctx))
	if result == nil {
		return errors.Join(runErr, err)
	}
	done := len(result.Trials)
	if r.trials != nil {
		fmt.Fprintln(s.Out)
	}
	switch {
	case f.json:
		err = errors.Join(err, data.Write(s.Out, result))
	case done == 0 || r.planner.unserved != "":
		// There is nothing to read in it.
	default:
		err = errors.Join(err, f.print(s.Out, result))
	}
	if r.store != nil {
		runs.TellReport(s, r.store.Dir(), err)
	}
	switch path := r.planner.unserved; {
	case stopped:
		err = errors.Join(fmt.Errorf("stopped after %d of %s; a comparison by hopbench test is not resumed: begin it again", done, quantity.Count(len(r.plan.Trials), "trial")), err)
	case runErr != nil:
		err = errors.Join(runErr, err)
	case path != "":
		err = errors.Join(fmt.Errorf("no server could be used on the path %s, so there is nothing to compare: %w; check the way, and that hopbench serve runs at its end (see its --help about tokens)", path, r.planner.why), err)
	default:
		err = errors.Join(nothingOf(result), err)
	}
	return err
}

// nothingOf says on which path a test has neither a trial that counts nor one that the
// path broke.
func nothingOf(r *result.Result) error {
	for _, test := range r.Tests {
		for _, path := range r.Paths {
			outcomes, missing := 0, 0
			for _, t := range r.Trials {
				switch {
				case t.Test != test.Name || t.Path != path.Name:
				case t.Gate.Passed || t.Gate.Broken:
					outcomes++
				default:
					missing++
				}
			}
			if outcomes == 0 {
				return fmt.Errorf("none of %s of %s on the path %s counts", quantity.Count(missing, "trial"), cmp.Or(test.Title, test.Name), path.Name)
			}
		}
	}
	return nil
}

// whileServed is a planner that ends where no server can be used on a path from the
// start: there is nothing to compare then. A server that can be used no more later on is
// what the path did.
type whileServed struct {
	runner.Planner
	// unserved is the path, and why is why.
	unserved string
	why      error
}

func (p *whileServed) Next() (experiment.PlannedTrial, bool) {
	if p.unserved != "" {
		return experiment.PlannedTrial{}, false
	}
	return p.Planner.Next()
}

func (p *whileServed) Left() []experiment.PlannedTrial {
	if p.unserved != "" {
		return nil
	}
	return p.Planner.Left()
}

func (p *whileServed) Done(t measurement.Trial, err error) {
	p.Planner.Done(t, err)
	if t.Block == 1 && survey.NoServer(err) != "" {
		p.unserved, p.why = t.Path, err
	}
}
