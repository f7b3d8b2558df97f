package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/stats"
)

// defaultPort is iperf3's, so that firewalls opened for it serve hopbench too.
const defaultPort = 5201

type testFlags struct {
	port       uint16
	only       []string
	flows      int
	duration   time.Duration
	reverse    bool
	udp        bool
	bind       string
	v4, v6     bool
	congestion string
	window     string
	copy       bool
	tokenFile  string
	json       bool
	quiet      bool
}

func testCommand(s streams) *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test HOST",
		Short: "Measure the path to a host that runs hopbench serve",
		Long: `test measures the path from here to a host where "hopbench serve" runs: its
hops, its latency, and its throughput with one flow and with several, as the
receiver confirmed it. It is the code that the agents of a lab run.

ping and trace need no server at the other end.`,
		Example: `  hopbench test 192.0.2.7
  hopbench test 192.0.2.7 --only tcp --flows 8 --duration 3s
  hopbench test 192.0.2.7 --only tcp --reverse --json`,
		Args: exactly("HOST"),
		RunE: func(c *cobra.Command, args []string) error {
			tests, err := f.tests()
			if err != nil {
				return usageError{err}
			}
			return measureHost(c.Context(), s, f, args[0], tests)
		},
	}
	flags := c.Flags()
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "port of the server")
	flags.StringSliceVar(&f.only, "only", nil, "only these kinds of test: trace, ping, rr, tcp")
	flags.IntVarP(&f.flows, "flows", "P", 0, "number of parallel TCP flows (default: one test with 1 and one with 8)")
	flags.DurationVarP(&f.duration, "duration", "t", 0, "measured time of each rr (default 1s) and tcp (default 3s) test")
	flags.BoolVarP(&f.reverse, "reverse", "R", false, "the server sends, this host receives")
	flags.BoolVarP(&f.udp, "udp", "u", false, "rr over UDP, trace with UDP probes")
	flags.StringVarP(&f.bind, "bind", "B", "", "local address to send from")
	flags.BoolVarP(&f.v4, "ipv4", "4", false, "use IPv4 only")
	flags.BoolVarP(&f.v6, "ipv6", "6", false, "use IPv6 only")
	flags.StringVarP(&f.congestion, "congestion", "C", "", "TCP congestion control algorithm")
	flags.StringVarP(&f.window, "window", "w", "", "clamp the receive window of each flow, such as 1.33MB")
	flags.BoolVar(&f.copy, "copy", false, "have the receiver copy the payload to user space, as an application would")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the server's token")
	flags.BoolVarP(&f.json, "json", "J", false, "print the result as JSON (format "+measurement.ResultFormat+") and nothing else")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	c.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	return c
}

// tests turns the flags into the tests to do, in their order.
func (f testFlags) tests() ([]measurement.TestInfo, error) {
	if f.flows < 0 || f.duration < 0 {
		return nil, errors.New("--flows and --duration cannot be negative")
	}
	throughput, err := f.throughputTests()
	if err != nil {
		return nil, err
	}
	over := measurement.OverTCP
	if f.udp {
		over = measurement.OverUDP
	}
	tests := append([]measurement.TestInfo{
		{Name: "path", Title: "path", Spec: measurement.Spec{Kind: measurement.Trace, Protocol: over}},
		{Name: "ping", Title: "ping", Spec: measurement.Spec{Kind: measurement.Ping, Count: 20, Interval: 0.02}},
		{Name: "latency", Title: "latency", Spec: measurement.Spec{Kind: measurement.RR, Protocol: over, Duration: f.durationOr(time.Second)}},
	}, throughput...)
	known := []string{"trace", "ping", "rr", "tcp"}
	wanted := f.only
	if len(wanted) == 0 {
		// The rr test gives the latency; ping is there for who asks for it.
		wanted = []string{"trace", "rr", "tcp"}
	}
	for _, kind := range wanted {
		if !slices.Contains(known, kind) {
			return nil, fmt.Errorf("--only %q is not a kind of test; they are %s", kind, strings.Join(known, ", "))
		}
	}
	tests = slices.DeleteFunc(tests, func(t measurement.TestInfo) bool { return !slices.Contains(wanted, string(t.Spec.Kind)) })
	for i := range tests {
		tests[i].Spec = tests[i].Spec.Defaults()
	}
	return tests, nil
}

// throughputTests are one test with the flows asked for, or one with a single
// flow and one with several.
func (f testFlags) throughputTests() ([]measurement.TestInfo, error) {
	spec := measurement.Spec{
		Kind: measurement.TCP, Duration: f.durationOr(3 * time.Second), MaxWarmup: 1,
		CongestionControl: f.congestion, CopyPayload: f.copy,
	}
	if f.window != "" {
		window, err := experiment.ParseBytes(f.window)
		if err != nil {
			return nil, fmt.Errorf("--window: %w", err)
		}
		spec.WindowBytes = window
	}
	if f.reverse {
		spec.Direction = measurement.Receive
	}
	flows := []int{1, 8}
	if f.flows > 0 {
		flows = []int{f.flows}
	}
	var tests []measurement.TestInfo
	for _, n := range flows {
		spec.Flows = n
		tests = append(tests, measurement.TestInfo{Name: fmt.Sprintf("flows-%d", n), Title: quantity.Count(n, "flow"), Spec: spec})
	}
	return tests, nil
}

// durationOr is the duration asked for, or the test's own.
func (f testFlags) durationOr(own time.Duration) measurement.Seconds {
	if f.duration > 0 {
		own = f.duration
	}
	return measurement.SecondsOf(own)
}

func measureHost(ctx context.Context, s streams, f testFlags, host string, tests []measurement.TestInfo) error {
	target, err := f.resolve(ctx, host)
	if err != nil {
		return err
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return err
	}
	request := probe.Request{Target: target, Token: token}
	if f.bind != "" {
		if request.Source, err = netip.ParseAddr(f.bind); err != nil {
			return usageError{fmt.Errorf("--bind: %w", err)}
		}
	}
	spareProcessor()
	result := hostResult(host, target, tests)
	if !f.json {
		fmt.Fprintf(s.out, "path to %s (%v)\n", host, target)
	}
	failed := 0
	for i, test := range tests {
		trial := measureOnce(ctx, s, f, request, i+1, test)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped after %d of %d tests", i, len(tests))
		}
		if !trial.Gate.Passed {
			failed++
		}
		result.Trials = append(result.Trials, trial)
		if !f.json {
			printTrial(s.out, test, trial)
		}
	}
	result.Ended = time.Now()
	result.Complete = true
	analysis := stats.Analyse(result.Trials, result.Tests, result.Paths, stats.DefaultOptions())
	result.Cells = analysis.Cells
	if f.json {
		if err := report.JSON(s.out, result); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests gave no result that counts", failed, len(tests))
	}
	return nil
}

// measureOnce does one test and judges it.
func measureOnce(ctx context.Context, s streams, f testFlags, request probe.Request, order int, test measurement.TestInfo) measurement.Trial {
	request.ID = fmt.Sprintf("%s-%d", test.Name, time.Now().UnixNano())
	request.Spec = test.Spec
	live := newLiveLine(s.err, f.quiet || f.json)
	start := time.Now()
	outcome, err := probe.Run(ctx, request, func(p measurement.Progress) {
		left := test.Spec.ExpectedDuration().Duration() - time.Since(start)
		live.draw(fmt.Sprintf("  %s  %s left%s", test.Title, clock(left), liveValue(&p)))
	})
	live.clear()
	return measurement.Trial{
		ID: "b01-path-" + test.Name, Block: 1, Order: order, Path: pathName, Test: test.Name,
		Start: start, Elapsed: measurement.SecondsOf(time.Since(start)),
		Gate:    runner.Judge(test.Spec, outcome, measurement.Fingerprint{Matches: true}, runner.Limits{BusyWarns: true}, err),
		Outcome: outcome,
	}
}

// pathName is the one path that test measures.
const pathName = "path"

// hostResult is the frame of the result, in the format of a run.
func hostResult(host string, target netip.AddrPort, tests []measurement.TestInfo) *measurement.Result {
	source, err := os.Hostname()
	if err != nil {
		source = "this host"
	}
	return &measurement.Result{
		Format:      measurement.ResultFormat,
		Experiment:  measurement.ExperimentInfo{Name: "test", Title: "the path to " + host, Scale: 1, Baseline: pathName, Blocks: 1},
		Testbed:     measurement.Testbed{Kind: "hosts"},
		Environment: runner.HostEnvironment(),
		Started:     time.Now(),
		Planned:     len(tests),
		Paths: []measurement.PathInfo{{
			Name: pathName, Baseline: true, Source: source, Dest: target.String(), Hops: []measurement.HopInfo{},
		}},
		Tests: tests,
		Costs: []measurement.Cost{},
	}
}

// resolve finds the address of HOST or HOST:PORT.
func (f testFlags) resolve(ctx context.Context, host string) (netip.AddrPort, error) {
	port := f.port
	if h, p, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return netip.AddrPort{}, usageError{fmt.Errorf("%q is not a port", p)}
		}
		host, port = h, uint16(n)
	}
	network := "ip"
	switch {
	case f.v4:
		network = "ip4"
	case f.v6:
		network = "ip6"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find the address of %s: %w", host, err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), port), nil
}

// readToken reads the shared secret, without the line's end; no file, no token.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimRight(string(text), "\r\n")
	if token == "" {
		return "", usageError{fmt.Errorf("the token file %s is empty; make one with: head -c 24 /dev/urandom | base64 > %s", file, file)}
	}
	return token, nil
}
