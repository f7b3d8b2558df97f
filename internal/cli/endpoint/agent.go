package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/reach"
	"github.com/hopbench/hopbench/internal/service"
)

// controlDescriptor is where a lab puts an agent's control connection: the first
// descriptor after the standard ones.
const controlDescriptor = 3

// agentLease is how long an agent that is reached over a network goes on without a word
// of its coordinator.
const agentLease = 30 * time.Second

type agentFlags struct {
	listen       string
	join         string
	name         string
	labels       []string
	tokenFile    string
	stdio        bool
	removeSelf   bool
	inherited    bool
	maxRate      base.OptionValue
	maxDuration  time.Duration
	maxFlows     int
	allowTargets []string
	quiet        bool
}

// AgentCommand is `hopbench agent`.
func AgentCommand() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run an end of an experiment's paths on this host",
		Long: `agent lets the coordinator of an experiment ("hopbench run EXPERIMENT --testbed
FILE", on another host) measure from and to this host: for the coordinator it
listens, traces, and runs tests. It does nothing else, and runs no commands.

It obeys only a coordinator that proves the token, over TLS bound to that token. You need no
certificate. It works for one coordinator at a time. It stops all work for a coordinator
when the connection ends, or after ` + agentLease.String() + ` without a message. Its limits apply
whatever a coordinator requests.

With --join it needs no open port: it connects to the broker of a fleet
("hopbench run EXPERIMENT --testbed FILE" with kind: fleet), which admits it by the join
file in --token-file, and reconnects whenever the connection is lost. It contacts other
machines of the fleet only in tests.

Hosts with sshd need none of this: with "reach: ssh://HOST" in the testbed file, the
coordinator copies this program there, runs it, and removes it.`,
		Example: `  (umask 077; head -c 24 /dev/urandom | base64 > token)
  hopbench agent --listen :5202 --token-file token
  hopbench agent --listen 10.0.0.7 --token-file token --max-rate 1G --max-duration 2m
  hopbench agent --join 10.0.0.5 --token-file office.join --label role=client
  sudo hopbench agent install --token-file /etc/hopbench/token         start at every boot`,
		Args:              base.Exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runAgent(c, f) },
	}
	f.define(c)
	flags := c.Flags()
	flags.StringVar(&f.join, "join", "", fmt.Sprintf("HOST or HOST:PORT of the coordinator of a fleet to join (default port %d)", join.DefaultPort))
	flags.StringVar(&f.name, "name", "", "with --join: name of this machine in the fleet (default: its host name)")
	flags.StringSliceVar(&f.labels, "label", nil, "with --join: NAME=VALUE, the role of this machine, such as role=client")
	flags.BoolVar(&f.stdio, "stdio", false, "take commands from standard input (used over ssh)")
	flags.BoolVar(&f.removeSelf, "remove-self", false, "remove this program's file and folder as soon as it runs")
	flags.BoolVar(&f.inherited, "inherited", false, "take commands from file descriptor 3 (used in a lab)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no line for each coordinator")
	for _, internal := range []string{"remove-self", "inherited"} {
		flags.Lookup(internal).Hidden = true
	}
	c.MarkFlagsMutuallyExclusive("listen", "join", "stdio", "inherited")
	c.AddCommand(agentInstallCommand(), agentUninstallCommand())
	return c
}

// define binds the flags that an installed agent has, too.
func (f *agentFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", "", fmt.Sprintf("ADDRESS, :PORT or ADDRESS:PORT to listen on, TCP (default port %d)", reach.DefaultPort))
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv(base.TokenFileEnv), "file that holds the shared token; coordinators must prove it (environment: "+base.TokenFileEnv+")")
	f.maxRate.Flag.Type = kind.Rate
	flags.Var(&f.maxRate, "max-rate", "highest rate of one test of any kind, all its flows together, such as 1G (default: any)")
	flags.DurationVar(&f.maxDuration, "max-duration", time.Hour, "longest test, all its parts together")
	flags.IntVar(&f.maxFlows, "max-flows", probe.MaxFlows, "flows of one test")
	flags.StringSliceVar(&f.allowTargets, "allow-target", nil, "ADDRESS/BITS to which load may go without proof of a token: iperf3 and FTP servers")
}

// options are what the flags allow a coordinator.
func (f agentFlags) options() (agent.Options, error) {
	o := agent.Options{
		Lease:  agentLease,
		Limits: probe.Limits{MaxRateBitsPerSecond: f.maxRate.Number(), MaxDuration: f.maxDuration, MaxFlows: f.maxFlows},
	}
	if f.maxDuration <= 0 || f.maxFlows <= 0 {
		return o, base.Usage(errors.New("--max-duration and --max-flows must be more than 0"))
	}
	if f.join == "" && (f.name != "" || len(f.labels) > 0) {
		return o, base.Usage(errors.New("--name and --label are for the machines of a fleet: add --join HOST, or leave them out"))
	}
	for _, text := range f.allowTargets {
		prefix, err := parsePrefix(text)
		if err != nil {
			return o, base.Usage(fmt.Errorf("--allow-target: %w; write an address or a network, such as 10.0.0.7 or 10.0.0.0/24", err))
		}
		o.AllowTargets = append(o.AllowTargets, prefix)
	}
	return o, nil
}

// parsePrefix reads a network, or an address as a network of its own. Those of IPv4 that are written
// as of IPv6 would contain no address.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	} else if err == nil {
		return netip.Prefix{}, fmt.Errorf("%q has an interface, and this is about addresses whatever the interface: leave out %%%s", text, addr.Zone())
	}
	prefix, err := netip.ParsePrefix(text)
	const mapped = 96 // bits before the address of IPv4 (RFC 4291, section 2.5.5.2)
	if bits := prefix.Bits(); prefix.Addr().Is4In6() && bits >= mapped {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), bits-mapped)
	}
	return prefix.Masked(), err
}

// listenAddress completes the value of --listen.
func listenAddress(text string) (string, error) {
	if _, err := netip.ParseAddr(text); err == nil {
		return net.JoinHostPort(text, strconv.Itoa(reach.DefaultPort)), nil
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil && host != "" {
		_, err = netip.ParseAddr(host)
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", base.Usage(fmt.Errorf("--listen %s: write an address of this host, a port, or both, such as 10.0.0.7, :%d or [fd00::7]:%[2]d", strconv.Quote(text), reach.DefaultPort))
	}
	return text, nil
}

func runAgent(c *cobra.Command, f agentFlags) error {
	ctx, stderr := c.Context(), c.ErrOrStderr()
	if f.removeSelf {
		if err := reach.RemoveSelf(); err != nil {
			return err
		}
	}
	base.SpareProcessor()
	o, err := f.options()
	if err != nil {
		return err
	}
	switch {
	case f.inherited:
		return serveInherited(ctx)
	case f.stdio && base.IsTerminal(c.InOrStdin()):
		return base.Usage(errors.New("--stdio takes orders from a program, such as ssh; people use hopbench agent --listen"))
	case f.stdio:
		o.Log = base.NewLog(stderr)
		o.Claim = reach.ClaimHost
		conn, err := reach.Stdio()
		if err != nil {
			return err
		}
		return agent.Serve(ctx, conn, o)
	case f.join != "":
		return service.Run(ctx, func(ctx context.Context) error { return joinFleet(ctx, stderr, f, o) })
	case f.listen != "":
		return service.Run(ctx, func(ctx context.Context) error { return serveAgent(ctx, stderr, f, o) })
	}
	return base.Usage(fmt.Errorf("agent needs to know how its coordinator reaches it: hopbench agent --listen :%d --token-file FILE; see hopbench agent --help", reach.DefaultPort))
}

// serveInherited is an agent in a lab, whose coordinator is its parent.
func serveInherited(ctx context.Context) error {
	file := os.NewFile(controlDescriptor, "control")
	if file == nil {
		return base.Usage(errors.New("--inherited needs a control connection on file descriptor 3, which labs give"))
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return base.Usage(fmt.Errorf("take the control connection on file descriptor 3: %w", err))
	}
	if err := file.Close(); err != nil {
		return errors.Join(err, conn.Close())
	}
	return agent.Serve(ctx, conn, agent.Options{})
}

// serveAgent listens for coordinators.
func serveAgent(ctx context.Context, stderr io.Writer, f agentFlags, o agent.Options) error {
	address, err := listenAddress(f.listen)
	if err != nil {
		return err
	}
	token, err := base.ReadToken(f.tokenFile)
	if err != nil {
		return err
	}
	if token == "" {
		return base.Usage(errors.New("agent --listen takes orders only from who proves a token: make one with (umask 077; head -c 24 /dev/urandom | base64 > token), give both ends the same, and name it with --token-file token"))
	}
	warnOfToken(stderr, f.tokenFile, token)
	lines := base.NewLineWriter(stderr)
	defer lines.Close()
	var visit func(reach.Visit)
	if !f.quiet {
		o.Log = base.NewLog(lines)
		visit = func(v reach.Visit) { logVisit(lines, v) }
	}
	keepBelow(hostinfo.MaxMemoryBytes())
	listener, err := reach.Listen(ctx, address, reach.ListenerOptions{Token: token, Agent: o, OnCoordinator: visit})
	if err != nil {
		return unbound(err, "--listen ADDRESS:PORT")
	}
	fmt.Fprintf(stderr, "agent on %v, end with Ctrl-C\n  serves:   one coordinator at a time, which must prove the token\n  one test: %s\n", listener.Addr(), oneTest(o.Limits))
	if hint := firewallHint(); hint != "" {
		fmt.Fprintf(stderr, "  firewall: %s\n", hint)
	}
	return listener.Serve(ctx)
}

// oneTest says what one test may take.
func oneTest(l probe.Limits) string {
	rate := "any rate"
	if l.MaxRateBitsPerSecond > 0 {
		rate = quantity.FormatRate(l.MaxRateBitsPerSecond)
	}
	return fmt.Sprintf("%s, %s, %s", quantity.Count(l.MaxFlows, "flow"), quantity.FormatDuration(l.MaxDuration), rate)
}

// firewallHint is the command that lets tests in where a host's own firewall is known
// to refuse them.
func firewallHint() string {
	if runtime.GOOS != "windows" {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(`Windows refuses what comes in, unless an administrator says: netsh advfirewall firewall add rule name=hopbench dir=in action=allow program="%s"`, self)
}

// logVisit writes a line for a coordinator that came or went.
func logVisit(w io.Writer, v reach.Visit) {
	text := "coordinator: began"
	if v.Ended {
		text = "coordinator: ended after " + quantity.FormatDuration(v.Elapsed.Round(time.Second))
		if v.Err != nil {
			text += ": " + v.Err.Error()
		}
	}
	fmt.Fprintf(w, "%s  %v  %s\n", time.Now().Format(time.TimeOnly), v.Coordinator, printable.Line(text, longestEvent))
}
