package labtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/lab"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

// Names in a Fleet's folder, and of the node in which its coordinator is to run.
const (
	CoordinatorNode = "coordinator"
	TestbedFile     = "fleet.yaml"
	ExperimentFile  = "./experiment.yaml"
	JoinFile        = "fleet.join"
	FleetName       = "lab"
)

// Fleet is a lab whose ends are to be machines of a fleet: the lab's own agents are there,
// and nobody asks them for anything. Each has a link to the coordinator's node, which is on no
// path.
type Fleet struct {
	// Machines are all sources, then all destinations.
	Machines []Machine
	// Others are further nodes that were wanted, which are on no path either.
	Others []Machine
	// Folder has the files that programs in the nodes need.
	Folder string

	lab      *lab.Lab
	ctx      context.Context //nolint:containedctx // of what runs until Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	programs int // so far
}

// Machine is a node whose name is the machine's.
type Machine struct {
	Name, Label string
	// Coordinator is where this machine reaches the coordinator's node, and Control where all
	// others reach this machine over that.
	Coordinator, Control netip.Addr
	// Link is the interface of the coordinator's node towards this machine.
	Link string
}

// controlLink is the interface of a machine towards the coordinator.
const controlLink = "coordinator"

// controlNetwork has all links to the coordinator: those of paths begin with 10.
var controlNetwork = netip.MustParsePrefix("172.16.0.0/16")

// NewFleet builds the paths of an experiment of several pairs, and other nodes with these names.
func NewFleet(ctx context.Context, text []byte, others ...string) (_ *Fleet, err error) {
	e, err := experiment.Load(ExperimentFile, text)
	if err != nil {
		return nil, err
	}
	if e.Pairs < 2 {
		return nil, errors.New("the experiment has one pair, and a fleet several")
	}
	e = e.Scaled()
	topology, paths, err := lab.FromExperiment(e)
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	for _, node := range topology.Nodes {
		if node.Agent {
			f.Machines = append(f.Machines, Machine{Name: node.Name, Label: "role=" + node.Name[:strings.LastIndexByte(node.Name, '-')]})
		}
	}
	for _, name := range others {
		topology.Nodes = append(topology.Nodes, lab.Node{Name: name})
		f.Others = append(f.Others, Machine{Name: name})
	}
	f.linkMachines(&topology)
	if f.Folder, err = os.MkdirTemp("", "hopbench-fleet-"); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if _, _, err = join.Open(filepath.Join(f.Folder, JoinFile), FleetName); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{ExperimentFile: string(text), TestbedFile: fleetTestbed(e, paths)} {
		if err = os.WriteFile(filepath.Join(f.Folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	f.lab, err = lab.Start(ctx, topology, lab.Options{NodeCommand: testbedlab.AgentCommand})
	return f, err
}

// linkMachines adds the coordinator's node and its link to each machine to a topology.
func (f *Fleet) linkMachines(t *lab.Topology) {
	// Only nodes that forward may have several links without routes beyond them.
	t.Nodes = append(t.Nodes, lab.Node{Name: CoordinatorNode, Forward: true})
	at := controlNetwork.Addr()
	link := func(m *Machine, name string) {
		near, far := netip.PrefixFrom(at, 31), netip.PrefixFrom(at.Next(), 31)
		at = far.Addr().Next()
		m.Coordinator, m.Control, m.Link = near.Addr(), far.Addr(), name
		t.Links = append(t.Links, lab.Link{
			A:      lab.End{Node: CoordinatorNode, Interface: name, Address: near},
			B:      lab.End{Node: m.Name, Interface: controlLink, Address: far},
			Beyond: controlNetwork,
		})
	}
	for i := range f.Machines {
		link(&f.Machines[i], fmt.Sprint("machine-", i+1))
	}
	for i := range f.Others {
		link(&f.Others[i], fmt.Sprint("other-", i+1))
	}
}

// fleetTestbed is the testbed file. What a lab knows of its ends, it says.
func fleetTestbed(e *experiment.Experiment, paths []lab.Path) string {
	var b strings.Builder
	fmt.Fprintf(&b, "format: hopbench.testbed/1\nname: %s\nkind: fleet\nbroker: {join_file: %s}\nendpoints:\n", FleetName, JoinFile)
	for _, end := range e.Endpoints {
		fmt.Fprintf(&b, "  %s: {reach: \"fleet://role=%[1]s\"", end.Name)
		if rate := end.EgressBitsPerSecond; rate > 0 {
			fmt.Fprintf(&b, ", egress_rate: %.0fbit", rate)
		}
		b.WriteString("}\n")
	}
	b.WriteString("paths:\n")
	for _, p := range paths {
		fmt.Fprintf(&b, "  %s: {to: %v}\n", p.Name, netip.PrefixFrom(p.Pairs[0].Destination, 24).Masked())
	}
	return b.String()
}

// Agent are the arguments of hopbench with which a machine joins at an address.
func (m Machine) Agent(at, joinFile string) []string {
	return []string{"agent", "--join", at, "--token-file", joinFile, "--name", m.Name, "--label", m.Label}
}

// Counters are what the coordinator's node has received and sent so far, in bytes.
func (f *Fleet) Counters(ctx context.Context) (received, sent uint64, err error) {
	c, err := f.lab.Counters(ctx, CoordinatorNode)
	for _, n := range c.Nodes {
		for _, i := range n.Interfaces {
			received, sent = received+i.ReceivedBytes, sent+i.SentBytes
		}
	}
	return received, sent, err
}

// Program is one that runs in a node.
type Program struct {
	cancel context.CancelFunc
	done   chan struct{}
	status int
	err    error
	what   string
	said   string // file
}

// Start runs a program in a node until it ends, it is killed or the fleet is closed. It is
// to be called from one goroutine.
func (f *Fleet) Start(node string, argv ...string) (*Program, error) {
	f.programs++
	ctx, cancel := context.WithCancel(f.ctx)
	p := &Program{
		cancel: cancel, done: make(chan struct{}), what: fmt.Sprintf("%s in %s", argv[0], node),
		said: filepath.Join(f.Folder, fmt.Sprintf("said-%d", f.programs)),
	}
	out, err := os.Create(p.said)
	if err != nil {
		cancel()
		return nil, err
	}
	f.running.Go(func() {
		defer close(p.done)
		defer cancel()
		p.status, p.err = f.lab.Exec(ctx, node, lab.Command{Argv: argv, Dir: f.Folder, Stdout: out, Stderr: out})
		p.err = errors.Join(p.err, out.Close())
	})
	return p, nil
}

// Kill ends the program and all of its process group by SIGKILL, and waits for that.
func (p *Program) Kill() {
	p.cancel()
	<-p.done
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// Said is what the program has said, on both of its outputs.
func (p *Program) Said() string {
	text, err := os.ReadFile(p.said)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Err is why the program, which has ended, did not end well.
func (p *Program) Err() error {
	if p.err != nil {
		return p.err
	}
	if p.status != 0 {
		return fmt.Errorf("%s: exit status %d: %s", p.what, p.status, p.Said())
	}
	return nil
}

// Close ends all programs and the lab.
func (f *Fleet) Close() error {
	f.cancel()
	f.running.Wait()
	var err error
	if f.lab != nil {
		err = f.lab.Close()
	}
	return errors.Join(err, os.RemoveAll(f.Folder))
}
