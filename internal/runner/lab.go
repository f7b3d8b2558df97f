package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/sockets"
)

// agentPort is where an agent in a lab listens; the lab's addresses are its
// own, so no other program can be there.
const agentPort = 5201

// AgentCommand are the arguments that make the hopbench binary an agent with
// its control connection on file descriptor 3.
var AgentCommand = []string{"agent"}

// Lab is the testbed of network namespaces on this machine.
type Lab struct {
	lab    *lab.Lab
	order  []lab.Path
	paths  map[string]lab.Path      // by name
	agents map[string]*agent.Client // by node
	token  string
	rules  map[string]string
	// iperf3 says that some test speaks iperf3's protocol.
	iperf3 bool
	// inForce is which of the paths that share their nodes is in force, by the
	// one that has them; empty when it is not known.
	inForce map[string]string
}

// NewLab builds the paths of e (not scaled; the lab scales it) and has the
// agents at either end of them ready to measure.
func NewLab(ctx context.Context, e *experiment.Experiment) (*Lab, error) {
	l, err := HoldLab(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// HoldLab builds the paths of e and leaves their nodes to whoever runs
// programs in them: nothing listens there, and Measure cannot be used.
func HoldLab(ctx context.Context, e *experiment.Experiment) (*Lab, error) {
	topology, paths, err := lab.FromExperiment(e.Scaled())
	if err != nil {
		return nil, err
	}
	l := &Lab{order: paths, paths: map[string]lab.Path{}, agents: map[string]*agent.Client{}, rules: topology.RuleDigests(), iperf3: speaksIPerf3(e), inForce: map[string]string{}}
	for _, p := range paths {
		l.paths[p.Name] = p
		l.inForce[nodesOf(p)] = nodesOf(p) // as it is built
	}
	if l.lab, err = lab.Start(ctx, topology, lab.Options{NodeCommand: AgentCommand}); err != nil {
		return nil, err
	}
	return l, nil
}

// speaksIPerf3 says whether an agent must serve iperf3's clients: only then is
// a port of the lab open to whoever has no token.
func speaksIPerf3(e *experiment.Experiment) bool {
	return slices.ContainsFunc(e.Tests, func(t experiment.Test) bool { return t.Spec.Tool == measurement.IPerf3 })
}

// connect takes up the control connection of every endpoint's agent and has
// the destinations listen.
func (l *Lab) connect(ctx context.Context) error {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("make the lab's token: %w", err)
	}
	l.token = hex.EncodeToString(secret)
	for _, p := range l.order {
		if p.VariantOf != "" {
			continue // it has the addresses of that path
		}
		for k := range pairsOf(p) {
			if err := l.connectPair(ctx, p.Of(k)); err != nil {
				return err
			}
		}
		if err := l.watchBackends(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// connectPair takes up the agents at the two ends of a path of one pair.
func (l *Lab) connectPair(ctx context.Context, p lab.Path) error {
	if _, err := l.agentAt(p.SourceNode); err != nil {
		return err
	}
	for _, far := range listeners(p) {
		if err := l.listen(ctx, far); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) listen(ctx context.Context, far listener) error {
	a, err := l.agentAt(far.node)
	if err != nil {
		return err
	}
	do := a.Listen
	if l.iperf3 {
		do = a.ListenIPerf3
	}
	at := netip.AddrPortFrom(far.address, agentPort)
	if err := do(ctx, at, l.token); err != nil {
		return fmt.Errorf("have %s listen on %v: %w", far.node, at, err)
	}
	return nil
}

// Info says that a lab's figures are relative.
func (l *Lab) Info() measurement.Testbed {
	return measurement.Testbed{
		Kind: "lab", Relative: true,
		Note: "network namespaces on one machine: the endpoints and the hops share its processors, so absolute figures say as much about the machine as about the path",
	}
}

// Paths are the lab's paths with their nodes and addresses.
func (l *Lab) Paths() []lab.Path { return l.order }

// RuleDigests are those of the rule files that the lab was built with.
func (l *Lab) RuleDigests() map[string]string { return l.rules }

// Publish lets other processes of this user run programs in the lab's nodes.
func (l *Lab) Publish(name string) error { return l.lab.Publish(name) }

// Done is closed when the lab has ended or broken.
func (l *Lab) Done() <-chan struct{} { return l.lab.Done() }

// Environment is what the lab's kernel settings are.
func (l *Lab) Environment() map[string]string { return l.lab.Environment() }

// Facts are what this machine did not allow the lab as wished.
func (l *Lab) Facts() []string {
	facts := l.lab.Facts()
	if n := runtime.NumCPU(); n < 2 {
		facts = append(facts, "This run had a single processor, on which both endpoints and every hop took turns: throughputs are lower and latencies noisier than the paths'. Give hopbench at least 2 processors (a virtual machine's setting, or taskset and cgroup limits).")
	}
	return facts
}

// Measure traces the path over TCP to the agent's port and then does the test.
func (l *Lab) Measure(ctx context.Context, trial experiment.PlannedTrial, progress func(measurement.Progress)) (measurement.Outcome, measurement.Fingerprint, error) {
	path, ok := l.paths[trial.Path]
	if !ok {
		return measurement.Outcome{}, measurement.Fingerprint{}, fmt.Errorf("the lab has no path %q", trial.Path)
	}
	ctx, release := l.whileUp(ctx)
	defer release()
	outer, err := l.traceOuter(ctx, trial.ID, path)
	if err != nil {
		return measurement.Outcome{}, measurement.Fingerprint{Why: fmt.Sprintf("the trace below the tunnel failed: %v", err)}, err
	}
	growth, err := l.grow(ctx, path)
	if err != nil {
		return measurement.Outcome{}, measurement.Fingerprint{Why: err.Error()}, err
	}
	defer growth.end()
	seen, err := l.traces(ctx, path, trial)
	if err != nil {
		why := fmt.Sprintf("the trace failed: %v", err)
		return measurement.Outcome{}, measurement.Fingerprint{Why: why}, fmt.Errorf("trace the path: %w", err)
	}
	hops := watchHops(ctx, l.lab.Counters, sockets.ReadCPU, path, hopInterval(trial.Spec))
	watch := l.watchTunnel(ctx, path)
	outcome, each, err := l.test(ctx, path, trial, growth.watching(progress))
	watch.end(&outcome)
	hops.end(ctx, &outcome)
	growth.end()
	if err != nil {
		l.awaitDeath(ctx)
	}
	outcome.Facts = slices.Concat(outcome.Facts, growth.facts, l.backendFacts(path))
	return outcome, fingerprints(path, seen, outer, each), errors.Join(err, growth.err)
}

// switchTimeout bounds how long switching a path may take: a few routes.
const switchTimeout = 10 * time.Second

// Switch brings a path into force, if it shares its nodes with others.
func (l *Lab) Switch(ctx context.Context, name string) (bool, error) {
	path, ok := l.paths[name]
	if !ok {
		return false, fmt.Errorf("the lab has no path %q", name)
	}
	base := nodesOf(path)
	if l.inForce[base] == name {
		return false, nil
	}
	l.inForce[base] = ""
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if err := l.lab.Switch(ctx, name); err != nil {
		return false, err
	}
	l.inForce[base] = name
	return true, nil
}

// nodesOf is the path whose nodes p has.
func nodesOf(p lab.Path) string { return cmp.Or(p.VariantOf, p.Name) }

// whileUp is a context that ends with the lab: a process of it that dies ends
// the trial at once, not when the trial's time is over. The caller calls
// release.
func (l *Lab) whileUp(ctx context.Context) (up context.Context, release func()) {
	up, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.lab.Done():
			cancel(l.Broken())
		case <-up.Done():
		}
	})
	return up, func() {
		cancel(nil)
		watching.Wait()
	}
}

// request is what the source of a path of one pair is asked to do.
func (l *Lab) request(path lab.Path, trial experiment.PlannedTrial) probe.Request {
	return probe.Request{
		ID: trial.ID, Spec: trial.Spec, Token: l.token,
		Target: netip.AddrPortFrom(path.Destination, agentPort), Source: path.Source,
	}
}

// fingerprint holds what was seen on the way against the path that was built.
func fingerprint(path lab.Path, hops []measurement.TraceHop, o measurement.Outcome) measurement.Fingerprint {
	f := measurement.Fingerprint{Hops: hops, ReceivedTTL: o.Destination.ReceivedTTL}
	for _, flow := range o.Flows {
		if flow.Final != nil {
			f.PathMTU, f.MSS = flow.Final.PathMTU, flow.Final.MSS
			break
		}
	}
	const silent = "*"
	seen := make([]string, len(hops))
	for i, h := range hops {
		seen[i] = cmp.Or(h.Address, silent)
	}
	want, same := make([]string, len(path.Hops)), len(seen) == len(path.Hops)
	for i := range path.Hops {
		answers := []string{silent}
		if path.Hops[i].IsValid() {
			answers = nil
			for _, a := range path.Answers(i) {
				answers = append(answers, a.String())
			}
		}
		want[i] = strings.Join(answers, "|")
		same = same && slices.Contains(answers, seen[i])
	}
	switch {
	case !same:
		f.Why = fmt.Sprintf("the trace saw %v where the path is %v", seen, want)
	case f.ReceivedTTL != 0 && path.ReceivedTTL != 0 && f.ReceivedTTL != path.ReceivedTTL:
		f.Why = fmt.Sprintf("packets arrived with a time to live of %d where the path leaves %d", f.ReceivedTTL, path.ReceivedTTL)
	case o.Source.ReceivedTTL != 0 && path.ReturnedTTL != 0 && o.Source.ReceivedTTL != path.ReturnedTTL:
		f.Why = fmt.Sprintf("packets came back with a time to live of %d where the path leaves %d", o.Source.ReceivedTTL, path.ReturnedTTL)
	default:
		f.Matches = true
	}
	return f
}

// Broken says which of the lab's processes died, if one did.
func (l *Lab) Broken() error {
	select {
	case <-l.lab.Done():
		if err := l.lab.Err(); err != nil {
			return l.blame(err)
		}
		return errors.New("the lab has ended")
	default:
		return nil
	}
}

// Close ends the lab and everything in it. A second Close does nothing.
func (l *Lab) Close() error {
	var err error
	for _, a := range l.agents {
		err = errors.Join(err, a.Close())
	}
	l.agents = nil
	if l.lab != nil {
		err = errors.Join(err, l.lab.Close())
		l.lab = nil
	}
	return err
}
