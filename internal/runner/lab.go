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

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
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
	// iperf3 says that some test speaks iperf3's protocol.
	iperf3 bool
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
	l := &Lab{order: paths, paths: map[string]lab.Path{}, agents: map[string]*agent.Client{}, iperf3: speaksIPerf3(e)}
	for _, p := range paths {
		l.paths[p.Name] = p
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
		for k := range pairsOf(p) {
			if err := l.connectPair(ctx, p.Of(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// connectPair does so for the two ends of a path of one pair.
func (l *Lab) connectPair(ctx context.Context, p lab.Path) error {
	for _, node := range []string{p.SourceNode, p.DestinationNode} {
		if l.agents[node] != nil {
			continue
		}
		conn, err := l.lab.Control(node)
		if err != nil {
			return fmt.Errorf("reach the agent of %s: %w", node, err)
		}
		l.agents[node] = agent.NewClient(conn)
	}
	listen := netip.AddrPortFrom(p.Listen, agentPort)
	do := l.agents[p.DestinationNode].Listen
	if l.iperf3 {
		do = l.agents[p.DestinationNode].ListenIPerf3
	}
	if err := do(ctx, listen, l.token); err != nil {
		return fmt.Errorf("have %s listen on %v: %w", p.DestinationNode, listen, err)
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
	seen, err := l.traces(ctx, path, trial)
	if err != nil {
		why := fmt.Sprintf("the trace failed: %v", err)
		return measurement.Outcome{}, measurement.Fingerprint{Why: why}, fmt.Errorf("trace the path: %w", err)
	}
	outcome, each, err := l.test(ctx, path, trial, progress)
	return outcome, fingerprints(path, seen, each), err
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
	want := make([]string, len(path.Hops))
	for i, h := range path.Hops {
		want[i] = silent
		if h.IsValid() {
			want[i] = h.String()
		}
	}
	switch {
	case fmt.Sprint(seen) != fmt.Sprint(want):
		f.Why = fmt.Sprintf("the trace saw %v where the path is %v", seen, want)
	case f.ReceivedTTL != 0 && path.ReceivedTTL != 0 && f.ReceivedTTL != path.ReceivedTTL:
		f.Why = fmt.Sprintf("packets arrived with a time to live of %d where the path leaves %d", f.ReceivedTTL, path.ReceivedTTL)
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
			return fmt.Errorf("the lab broke: %w", err)
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
