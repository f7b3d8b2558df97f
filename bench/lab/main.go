// Command lab prints how long a lab of 64 routed nodes takes to come up,
// as a chain and as a star, and how long Mininet takes for the same graphs
// where it is installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
)

func main() {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	nodes := flag.Int("nodes", 64, "number of nodes, 3 to 250")
	runs := flag.Int("runs", 5, "how often to build each graph")
	flag.Parse()
	if *nodes < 3 || *nodes > 250 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "lab: 3 to 250 nodes and at least one run are possible")
		os.Exit(2)
	}
	if err := run(*nodes, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(nodes, runs int) error {
	if _, err := exec.LookPath("ping"); err != nil {
		return fmt.Errorf("the check that all nodes are routed needs ping: %w", err)
	}
	fmt.Printf("%d routed nodes, median of %d (least, most)\n", nodes, runs)
	for _, graph := range []struct {
		name  string
		build func(int) (lab.Topology, string, string)
	}{{"chain", chain}, {"star", star}} {
		topology, from, to := graph.build(nodes)
		var own, theirs []time.Duration
		var ratios []float64
		var missing error
		for range runs { // in pairs, so that what disturbs one disturbs the other
			mine, err := bringUp(topology, from, to)
			if err != nil {
				return fmt.Errorf("%s: %w", graph.name, err)
			}
			own = append(own, mine)
			if missing != nil {
				continue
			}
			its, err := mininet(graph.name, nodes)
			if err != nil {
				missing = err
				continue
			}
			theirs = append(theirs, its)
			ratios = append(ratios, its.Seconds()/mine.Seconds())
		}
		fmt.Printf("%-6s hopbench %s\n", graph.name, summary(own))
		if missing != nil {
			fmt.Printf("%-6s mininet  not measured: %v\n", graph.name, missing)
			continue
		}
		slices.Sort(ratios)
		fmt.Printf("%-6s mininet  %s, median of pairs %.1f times hopbench's\n", graph.name, summary(theirs), ratios[len(ratios)/2])
	}
	return nil
}

func summary(all []time.Duration) string {
	slices.Sort(all)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
	return fmt.Sprintf("%s (%s, %s)", round(all[len(all)/2]), round(all[0]), round(all[len(all)-1]))
}

// bringUp measures Start and then checks, untimed, that the ends reach each other.
func bringUp(t lab.Topology, from, to string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	l, err := lab.Start(ctx, t, lab.Options{})
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	code, err := l.Exec(ctx, from, lab.Command{Argv: []string{"ping", "-n", "-c", "1", "-t", "255", "-W", "5", to}, Stderr: os.Stderr})
	if err == nil && code != 0 {
		err = fmt.Errorf("%s does not reach %s: ping ended with status %d", from, to, code)
	}
	return took, err
}

func subnet(i, host int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), byte(host)}), 30)
}

// chain is n nodes in a row; all but the ends forward.
func chain(n int) (t lab.Topology, from, to string) {
	for i := range n {
		t.Nodes = append(t.Nodes, lab.Node{Name: fmt.Sprintf("n%d", i), Forward: i > 0 && i < n-1})
		if i > 0 {
			t.Links = append(t.Links, lab.Link{
				A: lab.End{Node: fmt.Sprintf("n%d", i-1), Interface: "right", Address: subnet(i-1, 1)},
				B: lab.End{Node: fmt.Sprintf("n%d", i), Interface: "left", Address: subnet(i-1, 2)},
			})
		}
	}
	return t, "n0", subnet(n-2, 2).Addr().String()
}

// star is a router in the middle of n-1 nodes.
func star(n int) (t lab.Topology, from, to string) {
	t.Nodes = append(t.Nodes, lab.Node{Name: "n0", Forward: true})
	for i := 1; i < n; i++ {
		name := fmt.Sprintf("n%d", i)
		t.Nodes = append(t.Nodes, lab.Node{Name: name})
		t.Links = append(t.Links, lab.Link{
			A: lab.End{Node: "n0", Interface: "to-" + name, Address: subnet(i-1, 1)},
			B: lab.End{Node: name, Interface: "up", Address: subnet(i-1, 2)},
		})
	}
	return t, "n1", subnet(n-2, 2).Addr().String()
}

// mininet builds the same graph with Mininet's Python API: every node a host,
// every link a veth pair, and the routes that make all reach all.
func mininet(graph string, nodes int) (time.Duration, error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("mininet needs root")
	}
	// The distribution's Python has the distribution's Mininet.
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	cmd := exec.Command(python, "-c", mininetProgram, graph, fmt.Sprint(nodes))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return 0, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	var seconds float64
	if _, err := fmt.Sscan(string(out), &seconds); err != nil {
		return 0, fmt.Errorf("read its figure from %q: %w", out, err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// mininetProgram prints the seconds from an empty Mininet to routed nodes, then
// checks and removes them. Routes of a node are set with one shell command.
const mininetProgram = `
import sys, time
from mininet.net import Mininet
from mininet.link import Link
graph, n = sys.argv[1], int(sys.argv[2])
start = time.monotonic()
net = Mininet(controller=None, link=Link, autoSetMacs=False)
h = [net.addHost('n%d' % i, ip=None) for i in range(n)]
def ip(i, end): return '10.0.%d.%d/30' % (i, end)
def via(i, end): return '10.0.%d.%d' % (i, end)
links = []
for i in range(1, n):
    a, b = (h[i-1], h[i]) if graph == 'chain' else (h[0], h[i])
    links.append(net.addLink(a, b))
net.build()
for i, l in enumerate(links):
    l.intf1.setIP(ip(i, 1)); l.intf2.setIP(ip(i, 2))
for i, node in enumerate(h):
    if graph == 'star':
        c = 'sysctl -q -w net.ipv4.ip_forward=1' if i == 0 else 'ip route add default via ' + via(i-1, 1)
    elif i == 0:
        c = 'ip route add default via ' + via(0, 2)
    elif i == n-1:
        c = 'ip route add default via ' + via(n-2, 1)
    else:
        c = 'sysctl -q -w net.ipv4.ip_forward=1; ip -batch - <<E\n'
        for k in range(n-1):
            if k < i-1: c += 'route add 10.0.%d.0/30 via %s\n' % (k, via(i-1, 1))
            if k > i: c += 'route add 10.0.%d.0/30 via %s\n' % (k, via(i, 2))
        c += 'E'
    node.cmd(c)
took = time.monotonic() - start
source = h[0] if graph == 'chain' else h[1]
out = source.cmd('ping -n -c 1 -t 255 -W 5 ' + via(n-2, 2) + ' >/dev/null && echo reached')
net.stop()
if 'reached' not in out: sys.exit('the ends do not reach each other: ' + out)
print(took)
`
