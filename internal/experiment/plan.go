package experiment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// clone copies e so that changes to the copy's endpoints, hops and tests do
// not reach e.
func (e *Experiment) clone() *Experiment {
	c := *e
	c.Matters = maps.Clone(e.Matters)
	c.Contrasts = slices.Clone(e.Contrasts)
	c.Endpoints = slices.Clone(e.Endpoints)
	c.Tests = slices.Clone(e.Tests)
	c.Paths = slices.Clone(e.Paths)
	for i := range c.Paths {
		c.Paths[i].Hops = slices.Clone(c.Paths[i].Hops)
		for j := range c.Paths[i].Hops {
			c.Paths[i].Hops[j].Parameters = maps.Clone(c.Paths[i].Hops[j].Parameters)
		}
	}
	if e.Published != nil {
		published := *e.Published
		published.Figures = slices.Clone(published.Figures)
		published.Open = slices.Clone(published.Open)
		c.Published = &published
	}
	return &c
}

// Scaled is a copy of e for a testbed that is Scale times smaller: rates and
// the bytes of windows, socket buffers and files are divided by Scale, times and
// packets stay, and so do the published figures and the parameters as written.
// Scaling a scaled experiment changes nothing.
func (e *Experiment) Scaled() *Experiment {
	c := e.clone()
	if c.scaled {
		return c
	}
	c.scaled = true
	for i := range c.Endpoints {
		c.Endpoints[i].EgressBitsPerSecond /= c.Scale
		c.Endpoints[i].ReceiveWindowBytes = int64(float64(c.Endpoints[i].ReceiveWindowBytes) / c.Scale)
	}
	for i := range c.Paths {
		for j := range c.Paths[i].Hops {
			c.Paths[i].Hops[j].RateBitsPerSecond /= c.Scale
			c.Paths[i].Hops[j].PerFlowRateBitsPerSecond /= c.Scale
			c.Paths[i].Hops[j].QueueBytes = scaledBytes(c.Paths[i].Hops[j].QueueBytes, c.Scale)
			c.Paths[i].Hops[j].InspectRateBitsPerSecond /= c.Scale
		}
	}
	for i := range c.Tests {
		scaleSpec(&c.Tests[i].Spec, c.Scale)
		scaleSpec(&c.Tests[i].Full, c.Scale)
		scaleSpec(&c.Tests[i].Quick, c.Scale)
	}
	return c
}

// OnHosts is a copy of e for real hosts: nothing is scaled, and what says how a lab is to
// imitate paths is left out: the parameters of hops and tunnels, and rates, switches and NICs of
// endpoints. What hops a path has, and what tests and endpoints say of windows and
// congestion control, stays.
func (e *Experiment) OnHosts() *Experiment {
	c := e.clone()
	c.Scale, c.scaled, c.Model = 1, true, ""
	for i, end := range c.Endpoints {
		c.Endpoints[i] = Endpoint{Name: end.Name, ReceiveWindowBytes: end.ReceiveWindowBytes, CongestionControl: end.CongestionControl}
	}
	for i := range c.Paths {
		for j, hop := range c.Paths[i].Hops {
			c.Paths[i].Hops[j] = Hop{Type: hop.Type, Name: hop.Name}
		}
		if t := c.Paths[i].Tunnel; t != nil {
			c.Paths[i].Tunnel = &Tunnel{Type: t.Type}
		}
	}
	return c
}

// SpeaksIPerf3 says that a test of e has iperf3's protocol, whose clients prove no token.
func (e *Experiment) SpeaksIPerf3() bool {
	return slices.ContainsFunc(e.Tests, func(t Test) bool { return t.Spec.Tool == measurement.IPerf3 })
}

// scaledBytes keeps a queue that is there.
func scaledBytes(n int, scale float64) int {
	if n == 0 {
		return 0
	}
	return max(1, int(float64(n)/scale))
}

func scaleSpec(s *measurement.Spec, scale float64) {
	for _, o := range kind.Options() {
		if v, ok := o.Get(*s).(float64); ok && o.Scaled {
			o.Set(s, v/scale)
		}
	}
}

// With is a copy of e with what a command line asks for. It refuses what a
// file could not say either.
func (e *Experiment) With(o Overrides) (*Experiment, error) {
	c := e.clone()
	if c.Matters == nil && len(o.Matters) > 0 {
		c.Matters = map[string]measurement.Margin{}
	}
	maps.Copy(c.Matters, o.Matters)
	if o.Blocks < 0 || o.Blocks > maxBlocks {
		return nil, fmt.Errorf("%d blocks cannot be run; ask for 1 to %d", o.Blocks, maxBlocks)
	}
	if o.Duration != 0 {
		if wrong, remedy := kind.OptionNamed("duration").Check(measurement.TCP, o.Duration.Seconds()); wrong != "" {
			return nil, fmt.Errorf("%s; %s", wrong, remedy)
		}
	}
	if o.Blocks != 0 {
		c.Blocks = o.Blocks
	}
	c.TwoStage = e.TwoStage || o.TwoStage
	if n := c.Blocks * len(c.Paths) * len(c.Tests); n > maxTrials {
		return nil, fmt.Errorf("%d blocks of this experiment are %d trials, more than %d; ask for fewer blocks", c.Blocks, n, maxTrials)
	}
	for i := range c.Tests {
		switch {
		case o.Full:
			c.Tests[i].Spec = c.Tests[i].Full
		case o.Quick:
			c.Tests[i].Spec = c.Tests[i].Quick
		}
		if k, _ := kind.Of(c.Tests[i].Spec.Kind); o.Duration != 0 && k.Fills {
			c.Tests[i].Spec.Duration = measurement.SecondsOf(o.Duration)
		}
	}
	return c, nil
}

// Plan is a randomised complete block design: in each block every test once, in a
// random order, and inside each test every path once, so that the trials that are
// compared stand next to each other. The orders of the paths balance over the
// blocks which one comes after which. The same seed gives the same plan everywhere,
// for ever, and more blocks only add to it: the order is drawn with Fisher and Yates's
// shuffle from PCG-DXSM, whose output math/rand/v2 fixes, and not with that package's
// own Shuffle, which may change.
//
// Where switching to another path takes long, a plan in two stages switches far less
// often: in each block every path once, in a balanced order, and on each path every test
// once. The order of the tests is random, and in one block the same on every path: the
// trials that are compared have the same tests before them, and stand equally far apart.
//
// Every trial's Spec is complete. Windows are those of e, so plan the Scaled
// experiment for a scaled testbed.
func (e *Experiment) Plan(seed uint64) Plan {
	plan := Plan{Seed: seed, Trials: make([]PlannedTrial, 0, e.Blocks*len(e.Paths)*len(e.Tests))}
	add := func(block, path, test int) {
		p, t := e.Paths[path].Name, e.Tests[test]
		plan.Trials = append(plan.Trials, PlannedTrial{
			ID:    fmt.Sprintf("b%02d-%s", block, cellName(p, t.Name)),
			Block: block, Order: len(plan.Trials) + 1, Path: p, Test: t.Name, Spec: e.spec(t), Rest: e.Rest,
		})
	}
	random := rand.NewPCG(seed, planStream)
	orders := make([][][]int, len(e.Tests)) // of the paths, for the next blocks of each test
	next := func(test int) []int {
		if len(orders[test]) == 0 {
			orders[test] = balanced(random, len(e.Paths))
		}
		order := orders[test][0]
		orders[test] = orders[test][1:]
		return order
	}
	for block := 1; block <= e.Blocks; block++ {
		tests := permutation(random, len(e.Tests))
		if e.TwoStage {
			for _, path := range next(0) {
				for _, test := range tests {
					add(block, path, test)
				}
			}
			continue
		}
		for _, test := range tests {
			for _, path := range next(test) {
				add(block, path, test)
			}
		}
	}
	return plan
}

// SlowSwitch is how long a switch to another path takes, settling included, from which
// on a plan is made in two stages.
const SlowSwitch = 2 * time.Second

// Switches counts how often the plan goes from one path to another.
func (p Plan) Switches() (n int) {
	for i := 1; i < len(p.Trials); i++ {
		if p.Trials[i].Path != p.Trials[i-1].Path {
			n++
		}
	}
	return n
}

// cellName is a trial's id without its block. Loading refuses experiments in
// which two cells have the same.
func cellName(path, test string) string { return path + "-" + test }

// spec completes a test with what the endpoints say: the window of the end
// that receives, the congestion control of the end that sends. Of a test that
// sends in both directions they are the same at either end, which loading checked.
func (e *Experiment) spec(test Test) measurement.Spec {
	spec := test.Spec.Defaults()
	if !endsTune(spec.Kind) {
		return spec
	}
	sender, receiver := e.Ends()
	if spec.Direction == measurement.Receive {
		sender, receiver = receiver, sender
	}
	spec.WindowBytes = receiver.ReceiveWindowBytes
	spec.CongestionControl = sender.CongestionControl
	return spec
}

// endsTune says that tests of a kind are over TCP connections whose window and congestion
// control the endpoints decide.
func endsTune(k measurement.Kind) bool { return kind.OptionNamed("window").Takes(k) }

// Ends are the endpoints at the two ends of every path.
func (e *Experiment) Ends() (source, destination Endpoint) {
	for _, end := range e.Endpoints {
		switch end.Name {
		case e.Source:
			source = end
		case e.Destination:
			destination = end
		}
	}
	return source, destination
}

// longestPlan bounds what a plan is expected to take: trials may be pings of years.
const longestPlan = 100 * 365 * 24 * time.Hour

// ExpectedDuration is about how long the trials of the plan take together. Each takes
// perTrial more, which a testbed adds around it, or less, where tests end early.
func (p Plan) ExpectedDuration(perTrial time.Duration) time.Duration {
	var total measurement.Seconds
	for _, t := range p.Trials {
		total += max(0, t.Spec.ExpectedDuration()+measurement.SecondsOf(perTrial)) + measurement.SecondsOf(t.Rest)
	}
	return min(total, measurement.SecondsOf(longestPlan)).Duration()
}

// Info is what a result says of the experiment.
func (e *Experiment) Info() result.ExperimentInfo {
	info := result.ExperimentInfo{
		Name: e.Name, Title: e.Title, Description: e.Description,
		Scale: e.Scale, Matters: maps.Clone(e.Matters), Contrasts: slices.Clone(e.Contrasts),
		Baseline: e.Baseline, Blocks: e.Blocks, TwoStage: e.TwoStage, Model: e.Model, Text: e.Text,
	}
	if e.Published != nil {
		info.Source = e.Published.Source
		info.Open = slices.Clone(e.Published.Open)
		info.Published = slices.Clone(e.Published.Figures)
	}
	return info
}

// PathInfos is what a result says of the paths, with the parameters of hops
// as written.
func (e *Experiment) PathInfos() []result.PathInfo {
	out := make([]result.PathInfo, len(e.Paths))
	for i, path := range e.Paths {
		out[i] = result.PathInfo{
			Name: path.Name, Title: path.Title, Baseline: path.Name == e.Baseline,
			Source: e.Source, Dest: e.Destination,
			VariantOf: path.VariantOf, Tunnel: path.Tunnel.String(),
		}
		for _, hop := range path.Hops {
			out[i].Hops = append(out[i].Hops, result.HopInfo{
				Type: string(hop.Type), Name: hop.Name, Parameters: maps.Clone(hop.Parameters),
				Bypassed: path.IsOff(hop),
			})
		}
	}
	return out
}

// TestInfos is what a result says of the tests: their complete specs, as Plan
// gives them to trials.
func (e *Experiment) TestInfos() []result.TestInfo {
	out := make([]result.TestInfo, len(e.Tests))
	for i, test := range e.Tests {
		out[i] = result.TestInfo{Name: test.Name, Title: test.Title, Spec: e.spec(test)}
	}
	return out
}
