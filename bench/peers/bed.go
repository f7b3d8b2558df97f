package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/hopbench/hopbench/internal/lab"
)

// bed is two endpoints with one routing hop between them. Both endpoints have the
// same default congestion control, and no program is told another.
type bed interface {
	// exec runs a program in a node, with its output in one file, and returns the
	// status that it ends with. Signals go to all processes of its group, which is
	// killed when ctx ends.
	exec(ctx context.Context, node string, argv []string, out *os.File, signals <-chan os.Signal) (int, error)
	close() error
}

var beds = map[string]func(ctx context.Context, congestion string) (bed, error){
	"lab": newLabBed, "namespaces": newNamespaces,
}

// link joins two nodes, each end with its interface and address.
type link struct {
	node, device, address string
	peer                  string
	peerDevice            string
	peerAddress           string
}

var links = []link{
	{source, "right", "10.0.0.1/30", router, "left", "10.0.0.2/30"},
	{router, "right", "10.0.1.1/30", destination, "left", "10.0.1.2/30"},
}

const host = "10.0.1.2" // the destination

// labBed is a lab without agents.
type labBed struct{ lab *lab.Lab }

func newLabBed(ctx context.Context, congestion string) (bed, error) {
	end := func(node, name, address string) lab.End {
		return lab.End{Node: node, Interface: name, Address: netip.MustParsePrefix(address)}
	}
	topology := lab.Topology{Nodes: []lab.Node{
		{Name: source, CongestionControl: congestion},
		{Name: router, Forward: true},
		{Name: destination, CongestionControl: congestion},
	}}
	for _, c := range links {
		topology.Links = append(topology.Links, lab.Link{A: end(c.node, c.device, c.address), B: end(c.peer, c.peerDevice, c.peerAddress)})
	}
	l, err := lab.Start(ctx, topology, lab.Options{})
	if err != nil {
		return nil, err
	}
	return labBed{l}, nil
}

func (b labBed) exec(ctx context.Context, node string, argv []string, out *os.File, signals <-chan os.Signal) (int, error) {
	return b.lab.Exec(ctx, node, lab.Command{Argv: argv, Dir: os.TempDir(), Stdout: out, Stderr: out, Signals: signals})
}

func (b labBed) close() error { return b.lab.Close() }

// namespaces are made as one would by hand, with ip(8) and sysctl(8). Their names have
// this process's number; those of one that was killed stay (ip netns delete).
type namespaces struct{ prefix string }

func newNamespaces(ctx context.Context, congestion string) (bed, error) {
	n := namespaces{fmt.Sprintf("peers-%d-", os.Getpid())}
	err := inTurn(ctx, n.commands(congestion)...)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// commands make the namespaces.
func (n namespaces) commands(congestion string) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, node := range []string{source, router, destination} {
		add("ip netns add %s", n.prefix+node)
		add("ip -n %s link set lo up", n.prefix+node)
	}
	for _, c := range links {
		add("ip -n %s link add %s type veth peer name %s netns %s", n.prefix+c.node, c.device, c.peerDevice, n.prefix+c.peer)
		add("ip -n %s address add %s dev %s", n.prefix+c.node, c.address, c.device)
		add("ip -n %s address add %s dev %s", n.prefix+c.peer, c.peerAddress, c.peerDevice)
		add("ip -n %s link set %s up", n.prefix+c.node, c.device)
		add("ip -n %s link set %s up", n.prefix+c.peer, c.peerDevice)
	}
	// The kernel takes a namespace's default only from those that anyone may use
	// (tcp_allowed_congestion_control), which is the host's; a route takes any.
	add("ip -n %s route add default via 10.0.0.2 congctl %s", n.prefix+source, congestion)
	add("ip -n %s route add default via 10.0.1.1 congctl %s", n.prefix+destination, congestion)
	add("ip netns exec %s sysctl -qw net.ipv4.ip_forward=1", n.prefix+router)
	return lines
}

// inTurn runs command lines one after the other, until one fails.
func inTurn(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		argv := strings.Fields(line)
		if text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s (it takes root and iproute2)", line, err, tail(string(text), 200))
		}
	}
	return nil
}

func (n namespaces) exec(ctx context.Context, node string, argv []string, out *os.File, signals <-chan os.Signal) (int, error) {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.prefix + node}, argv...)...)
	c.Dir, c.Stdout, c.Stderr = os.TempDir(), out, out
	ownGroup(c)
	c.Cancel = func() error { return signalGroup(c, os.Kill) }
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("run %s in namespace %s: %w", argv[0], n.prefix+node, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = signalGroup(c, s) // it may have ended
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
				return exit.ExitCode(), nil
			}
			return 0, err
		}
	}
}

// close deletes the namespaces, with all that is in them.
func (n namespaces) close() error {
	var errs []error
	for _, node := range []string{source, router, destination} {
		if _, err := os.Stat("/run/netns/" + n.prefix + node); err == nil {
			errs = append(errs, inTurn(context.Background(), "ip netns delete "+n.prefix+node))
		}
	}
	return errors.Join(errs...)
}
