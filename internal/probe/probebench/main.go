// Command probebench compares this module's probes with their peers across
// one routing hop on this machine: TCP with one and with ten flows against
// iperf3, request/response against qperf. Own and peer's runs are interleaved
// in pairs, so that both meet the same machine; it prints the median of the
// pairs' ratios with its 95 % interval. Peers that are not installed are named
// and left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

func main() {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		fail(serveAgent())
		return
	}
	pairs := flag.Int("pairs", 10, "interleaved pairs of runs per comparison")
	duration := flag.Duration("duration", time.Second, "measured time of each run")
	congestion := flag.String("congestion", "cubic", "congestion control of both")
	only := flag.String("only", "", "one of: tcp-1, tcp-10, rr-tcp, rr-udp")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(run(ctx, *pairs, *duration, *congestion, *only))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "probebench:", err)
		os.Exit(1)
	}
}

// serveAgent is the process in a node of the lab.
func serveAgent() error {
	file := os.NewFile(3, "control")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("take the control connection: %w", err)
	}
	return errors.Join(file.Close(), agent.Serve(context.Background(), conn, agent.Options{}))
}

const (
	source, router, destination = "source", "router", "destination"
	token                       = "probebench"
)

var target = netip.MustParseAddrPort("10.0.1.2:5300")

// topology is two endpoints with one routing hop between them.
func topology() lab.Topology {
	end := func(node, name, prefix string) lab.End {
		return lab.End{Node: node, Interface: name, Address: netip.MustParsePrefix(prefix)}
	}
	return lab.Topology{
		Nodes: []lab.Node{{Name: source, Agent: true}, {Name: router, Forward: true}, {Name: destination, Agent: true}},
		Links: []lab.Link{
			{A: end(source, "right", "10.0.0.1/30"), B: end(router, "left", "10.0.0.2/30")},
			{A: end(router, "right", "10.0.1.1/30"), B: end(destination, "left", "10.0.1.2/30")},
		},
	}
}

// bench is a lab with an agent at each end.
type bench struct {
	lab        *lab.Lab
	near       *agent.Client
	duration   time.Duration
	congestion string
}

// comparison is one own figure against one peer's.
type comparison struct {
	name, peer, unit string
	lowerIsBetter    bool
	own, theirs      func(context.Context) (float64, error)
}

func run(ctx context.Context, pairs int, duration time.Duration, congestion, only string) error {
	l, err := lab.Start(ctx, topology(), lab.Options{NodeCommand: []string{"agent"}})
	if err != nil {
		return err
	}
	defer l.Close()
	b := &bench{lab: l, duration: duration, congestion: congestion}
	clients := map[string]*agent.Client{}
	for _, node := range []string{source, destination} {
		conn, err := l.Control(node)
		if err != nil {
			return err
		}
		clients[node] = agent.NewClient(conn)
		defer clients[node].Close()
	}
	b.near = clients[source]
	if err := clients[destination].Listen(ctx, target, token); err != nil {
		return err
	}
	fmt.Printf("one routing hop, %d interleaved pairs of %v, congestion control %s\n", pairs, duration, congestion)
	for _, c := range []comparison{
		{name: "tcp-1", peer: "iperf3", unit: "Gbit/s", own: b.tcp(1, false), theirs: b.iperf3(1)},
		{name: "tcp-1-copied", peer: "iperf3", unit: "Gbit/s", own: b.tcp(1, true), theirs: b.iperf3(1)},
		{name: "tcp-10", peer: "iperf3", unit: "Gbit/s", own: b.tcp(10, false), theirs: b.iperf3(10)},
		{name: "rr-tcp", peer: "qperf", unit: "µs mean", lowerIsBetter: true, own: b.rr(measurement.OverTCP), theirs: b.qperf("tcp_lat")},
		{name: "rr-udp", peer: "qperf", unit: "µs mean", lowerIsBetter: true, own: b.rr(measurement.OverUDP), theirs: b.qperf("udp_lat")},
	} {
		if only != "" && only != c.name {
			continue
		}
		if err := c.run(ctx, pairs); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (c comparison) run(ctx context.Context, pairs int) error {
	var own, theirs, ratios []float64
	for i := range pairs {
		sides := []func() error{
			func() error { return measure(ctx, c.own, &own) },
			func() error { return measure(ctx, c.theirs, &theirs) },
		}
		if i%2 == 1 { // neither always goes first
			slices.Reverse(sides)
		}
		for _, side := range sides {
			if err := side(); err != nil {
				if errors.Is(err, errNotInstalled) {
					fmt.Printf("%-13s not compared: %v\n", c.name, err)
					return nil
				}
				return err
			}
		}
		ratios = append(ratios, own[i]/theirs[i])
	}
	for _, s := range [][]float64{own, theirs, ratios} {
		slices.Sort(s)
	}
	text := fmt.Sprintf("%-13s hopbench %.4g, %s %.4g %s; ratio %.3g", c.name, median(own), c.peer, median(theirs), c.unit, median(ratios))
	if low, high, ok := medianInterval(ratios); ok {
		text += fmt.Sprintf(" [%.3g, %.3g]", low, high)
	}
	if c.lowerIsBetter {
		text += " (lower is better)"
	}
	fmt.Println(text)
	return nil
}

func measure(ctx context.Context, f func(context.Context) (float64, error), into *[]float64) error {
	v, err := f(ctx)
	if err == nil {
		*into = append(*into, v)
	}
	return err
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// medianInterval is the distribution-free interval of the median between two
// order statistics whose binomial coverage is at least 95 %; fewer than six
// values allow none.
func medianInterval(sorted []float64) (low, high float64, ok bool) {
	n := len(sorted)
	tail, best := 0.0, -1
	for k := range n / 2 {
		tail += math.Exp(logChoose(n, k) - float64(n)*math.Ln2)
		if 2*tail > 0.05 {
			break
		}
		best = k
	}
	if best < 0 {
		return 0, 0, false
	}
	return sorted[best], sorted[n-1-best], true
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

func (b *bench) tcp(flows int, copied bool) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		out, err := b.near.Run(ctx, probe.Request{ID: "bench", Target: target, Token: token, Spec: measurement.Spec{
			Kind: measurement.TCP, Flows: flows, CopyPayload: copied, CongestionControl: b.congestion,
			Duration: measurement.SecondsOf(b.duration), MaxWarmup: 0.3,
		}}, nil)
		return out.Metrics["goodput_bits_per_second"] / 1e9, err
	}
}

func (b *bench) rr(p measurement.Protocol) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		out, err := b.near.Run(ctx, probe.Request{ID: "bench", Target: target, Token: token, Spec: measurement.Spec{
			Kind: measurement.RR, Protocol: p, Duration: measurement.SecondsOf(b.duration),
		}}, nil)
		return out.Metrics["rtt_mean_seconds"] * 1e6, err
	}
}
