// Package lab is the testbed of network namespaces on this machine: it builds the
// paths of an experiment with package lab below, and has an agent in each node
// that is an end of them.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
)

// AgentCommand are the arguments that make the hopbench binary an agent with
// its control connection on file descriptor 3.
var AgentCommand = []string{"agent", "--inherited"}

// Lab is the testbed of network namespaces on this machine.
type Lab struct {
	e      *experiment.Experiment // scaled
	lab    *lab.Lab
	order  []lab.Path
	paths  []testbed.Path           // of the same order; empty while nobody measures
	agents map[string]*agent.Client // by node
	token  string
	rules  map[string]string
}

// New builds the paths of e (not scaled; the lab scales it) and has the
// agents at either end of them ready to measure.
func New(ctx context.Context, e *experiment.Experiment) (*Lab, error) {
	l, err := Hold(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		l.awaitDeath(ctx)
		if broken := l.Err(); broken != nil { // says more than what could not be asked of it
			err = l.lab.WithStderr(broken)
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Hold builds the paths of e and leaves their nodes to whoever runs
// programs in them: nothing listens there, and nothing can be measured.
func Hold(ctx context.Context, e *experiment.Experiment) (*Lab, error) {
	e = e.Scaled()
	topology, paths, err := lab.FromExperiment(e)
	if err != nil {
		return nil, err
	}
	l := &Lab{e: e, order: paths, agents: map[string]*agent.Client{}, rules: topology.RuleDigests()}
	if l.lab, err = lab.Start(ctx, topology, lab.Options{NodeCommand: AgentCommand}); err != nil {
		return nil, err
	}
	return l, nil
}

// connect takes up the control connection of every endpoint's agent and has
// the destinations listen.
func (l *Lab) connect(ctx context.Context) error {
	l.token = rand.Text()
	for _, p := range l.order {
		if p.VariantOf != "" {
			continue // it has the addresses of that path
		}
		for k := range max(len(p.Pairs), 1) {
			if err := l.connectPair(ctx, p.Of(k)); err != nil {
				return err
			}
		}
		if err := l.watchBackends(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range l.order {
		l.paths = append(l.paths, l.asTestbed(p))
	}
	return nil
}

// connectPair takes up the agents at the two ends of a path of one pair.
func (l *Lab) connectPair(ctx context.Context, p lab.Path) error {
	if _, err := l.client(p.SourceNode); err != nil {
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
	a, err := l.client(far.node)
	if err != nil {
		return err
	}
	at := agentAt(far.address)
	if _, err := a.Listen(ctx, at, agent.Serving{Token: l.token, IPerf3: l.e.SpeaksIPerf3()}); err != nil {
		return fmt.Errorf("have %s listen on %v: %w", far.node, at, err)
	}
	return nil
}

// Info says that a lab's figures are relative.
func (l *Lab) Info() result.Testbed {
	return result.Testbed{
		Kind: result.TestbedLab, Relative: true,
		Note: "network namespaces on one machine: the endpoints and the hops share its CPUs, so absolute figures say as much about the machine as about the path",
	}
}

// Laid are the lab's paths with their nodes and addresses.
func (l *Lab) Laid() []lab.Path { return l.order }

// Paths are the lab's paths, between agents.
func (l *Lab) Paths() []testbed.Path { return l.paths }

// Agent is that of a node.
func (l *Lab) Agent(node string) (testbed.Agent, error) { return l.client(node) }

// RuleDigests are those of the rule files that the lab was built with.
func (l *Lab) RuleDigests() map[string]string { return l.rules }

// Publish lets other processes of this user run programs in the lab's nodes.
func (l *Lab) Publish(name string) error { return l.lab.Publish(name) }

// Exec runs a program in a node and returns its exit status.
func (l *Lab) Exec(ctx context.Context, node string, c lab.Command) (int, error) {
	return l.lab.Exec(ctx, node, c)
}

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

// switchTimeout bounds how long switching a path may take: a few routes.
const switchTimeout = 10 * time.Second

// Switch brings a path into force, if it shares its nodes with others.
func (l *Lab) Switch(ctx context.Context, name string) (testbed.Switched, error) {
	if _, err := l.laid(name); err != nil {
		return testbed.Switched{}, err
	}
	shared := l.lab.SwitchedPaths()
	if i := slices.IndexFunc(shared, func(p lab.SwitchedPath) bool { return p.Name == name }); i < 0 || shared[i].InForce {
		return testbed.Switched{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if err := l.lab.Switch(ctx, name); err != nil {
		return testbed.Switched{}, err
	}
	return testbed.Switched{Changed: true, Settle: settleTime(l.e, name)}, nil
}

func (l *Lab) laid(name string) (lab.Path, error) {
	i := slices.IndexFunc(l.order, func(p lab.Path) bool { return p.Name == name })
	if i < 0 {
		return lab.Path{}, fmt.Errorf("the lab has no path %q", name)
	}
	return l.order[i], nil
}

// Err says which of the lab's processes died, if one did.
func (l *Lab) Err() error {
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
