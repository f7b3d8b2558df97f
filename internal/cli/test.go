package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/survey"
)

// maxTestBlocks bounds how often test does its tests.
const maxTestBlocks = 1000

type testFlags struct {
	port      uint16
	tokenFile string
	bind      string
	v4, v6    bool

	only []string
	udp  bool
	options

	// versus are the other ways to the host, as they were written.
	versus []string

	blocks  int
	explain bool
	out     string
	matters matters
	// command repeats the test.
	command []string
	// watched says who else is told of each step, on stream.
	watched viewFlags
	stream  *event.Stream

	json, markdown, verbose, quiet bool
}

func testCommand(s streams) *cobra.Command {
	f := testFlags{}
	c := &cobra.Command{
		Use:   "test HOST[%DEVICE][:PORT]",
		Short: "Measure the path to a host that runs hopbench serve",
		Long: `test measures the path from here to a host where "hopbench serve" runs, and
prints figures that the receiver confirmed. It is the code that the agents of a
lab run.

Without flags it takes a complete profile in about 15 seconds: the hops, the
path MTU in each direction, the idle latency, the throughput of one flow and of as many
as fill the path, the same back, the latency under that load, the loss of
datagrams at half of that rate, and the three metrics of RFC 6349. A step that
fails is a line in the summary; the others go on.

Flags choose a single test, as for iperf3 and ping: -u means datagrams; -P, -R,
--bidir, -w, -M, -C, -Z, -m, -O or -i mean TCP; --request, --in-flight or --spin
mean latency (rr); -c means ping. --only names the kinds instead:

` + kindsHelp() + `
A file over FTP is checked by a digest. --ftp-server HOST --ftp-path FILE fetches
one from a stock server instead, with -P in so many segments at the same time.

-p, -B, -4, -6, -t, -b, -S, --dscp and --device keep the profile; -b is then the
bottleneck bandwidth against which RFC 6349 rates it, and elsewhere the rate of
all flows together. Times are seconds or have a unit (10, 500ms), rates and sizes
are written as for iperf3 (1G, 64K) or with their unit (1Gbit, 64kB).

--versus compares: it names what is other about a second way to the host, its address
or port, or the source address (bind=), the interface (device=) or the code point
(dscp=) of the packets, several with commas between. Each test is then done on every
way in randomised blocks, and the report says what the others cost against HOST, with
intervals, as hopbench run does. Given again, it is a third way. Without a flag that
chooses a test they are tcp (one flow, 2 s) and rr, and without --blocks it does the
fewest blocks that can claim something.

docs/test.md explains every flag and every line of the summary.`,
		Example: `  hopbench test 192.0.2.7
  hopbench test 192.0.2.7 -b 1G                     rate the profile against 1 Gbit/s
  hopbench test 192.0.2.7 -P 8 -t 30 -R             8 flows back, as with iperf3
  hopbench test 192.0.2.7 -u -b 500M                datagrams
  hopbench test 192.0.2.7 --only rr,load --json     latency, idle and loaded
  hopbench test 192.0.2.7 --iperf3 -P 4             against a stock iperf3 server
  hopbench test 10.0.0.7 --versus 203.0.113.9       what the way by the other address costs
  hopbench test 10.0.0.7 --versus dscp=EF -P 8      8 flows, plain and marked`,
		Args: func(c *cobra.Command, args []string) error {
			if value[string](f.options, "ftp-server") != "" && len(args) == 0 {
				return nil
			}
			return base.Exactly("HOST")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			f := f
			f.command = commandOf(c, args)
			if f.blocks < 1 || f.blocks > maxTestBlocks {
				return base.Usage(fmt.Errorf("--blocks %d: do the tests 1 to %d times", f.blocks, maxTestBlocks))
			}
			to, err := f.whom(args)
			if err != nil {
				return base.Usage(err)
			}
			kinds, err := f.chooseKinds()
			if err != nil {
				return base.Usage(fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
			}
			var comparison *comparison
			var todo survey.Sequence
			if len(f.versus) > 0 {
				comparison, err = f.comparison(to, kinds, c.Flags().Changed("blocks"))
			} else {
				todo, err = f.sequence(kinds)
			}
			if err != nil {
				return base.Usage(err)
			}
			s := s
			views, err := f.watched.open(c.Context(), &s, f.json)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, views.close()) }()
			f.stream = views.stream
			if comparison != nil {
				comparison.flags.stream = f.stream
				return comparison.measure(c.Context(), s, probe.Run)
			}
			return measureHost(c.Context(), s, &f, to, todo, probe.Run)
		},
	}
	f.define(c)
	completeTest(c)
	return c
}

// kindsHelp has a line for each kind of test.
func kindsHelp() string {
	var b strings.Builder
	for _, k := range kind.All() {
		doc := k.Doc
		if k.NoServer {
			doc += "; needs no server"
		}
		fmt.Fprintf(&b, "    %-6s %s\n", k.Name, doc)
	}
	return b.String()
}

// define binds the flags.
func (f *testFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.SetNormalizeFunc(asIPerf3Says())
	flags.Uint16VarP(&f.port, "port", "p", measurement.DefaultPort, "port of the server")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv(base.TokenFileEnv), "file that holds the server's token (environment: "+base.TokenFileEnv+")")
	flags.StringVarP(&f.bind, "bind", "B", "", "local address to send from")
	flags.BoolVarP(&f.v4, "ipv4", "4", false, "use IPv4 only")
	flags.BoolVarP(&f.v6, "ipv6", "6", false, "use IPv6 only")

	flags.StringSliceVar(&f.only, "only", nil, "only these kinds of test: "+names(measurement.Kinds()))
	flags.BoolVarP(&f.udp, "udp", "u", false, "datagrams: --only udp")
	f.options.define(c)

	flags.StringArrayVar(&f.versus, versusFlag, nil, "compare with another way to the host: [HOST][%DEVICE][:PORT], or bind=, device=, dscp=, separated by commas")
	flags.IntVar(&f.blocks, "blocks", 1, "do all tests so many times: the first time in their order, then in random ones (with --"+versusFlag+": the fewest that can claim something)")
	flags.BoolVar(&f.explain, "explain", false, "if it cannot be told what limits a tcp test, do it again with one thing changed; a profile does so by itself")
	flags.Var(&f.matters, mattersFlag, "keep with the run "+mattersUsage)
	flags.StringVarP(&f.out, "out", "o", "", "keep the trials in this folder, with a report; see hopbench report and compare")

	flags.BoolVarP(&f.json, "json", "J", false, "print the result as JSON (format "+result.Format+") and nothing else")
	flags.BoolVar(&f.markdown, "markdown", false, "print the summary as Markdown")
	flags.BoolVarP(&f.verbose, "verbose", "V", false, "print every metric, and what was effective")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	f.watched.defineEvents(flags)
	c.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	c.MarkFlagsMutuallyExclusive(versusFlag, "explain")
}

// target is the host that the command line names.
type target struct {
	name string
	port uint16
}

// ftpPort is where FTP servers listen (RFC 959).
const ftpPort = 21

// whom is the host that is measured to: a stock FTP server has a flag of its own.
func (f *testFlags) whom(args []string) (target, error) {
	server, path := value[string](f.options, "ftp-server"), value[string](f.options, "ftp-path")
	switch {
	case server == "" && path+value[string](f.options, "ftp-user")+value[string](f.options, "ftp-password-file")+value[string](f.options, "ftp-crc32") != "":
		return target{}, errors.New("--ftp-path, --ftp-user, --ftp-password-file and --ftp-crc32 belong to a stock server; name it with --ftp-server")
	case server == "":
		return f.target(args[0], f.port)
	case len(args) > 0:
		return target{}, fmt.Errorf("%s and --ftp-server %s name two hosts; leave one out", args[0], server)
	case path == "":
		return target{}, errors.New("--ftp-server needs the file to fetch from it; give --ftp-path")
	}
	return f.target(server, ftpPort)
}

// target takes HOST[%DEVICE][:PORT] apart; a device becomes that of the tests.
func (f *testFlags) target(arg string, defaultPort uint16) (target, error) {
	to, device, err := splitTarget(arg, defaultPort)
	if err != nil || device == "" {
		return to, err
	}
	if given := value[string](f.options, "device"); given != "" && given != device {
		return to, fmt.Errorf("%s and --device %q do not name one interface", arg, given)
	}
	f.options.give("device", device)
	return to, nil
}

// splitTarget takes HOST[%DEVICE][:PORT] apart.
func splitTarget(arg string, defaultPort uint16) (to target, device string, err error) {
	to = target{arg, defaultPort}
	if host, port, err := net.SplitHostPort(arg); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return to, "", fmt.Errorf("%q is not a port", port)
		}
		to = target{host, uint16(n)}
	}
	host, device, found := strings.Cut(to.name, "%")
	if !found {
		return to, "", nil
	}
	if device == "" {
		return to, "", fmt.Errorf("%s names no interface after its %%", arg)
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || !a.IsLinkLocalUnicast() {
		to.name = host // only a link-local address keeps its zone
	}
	return to, device, nil
}

// resolve finds the address of a host, of the version of IP of the local address if there
// is one.
func (f *testFlags) resolve(ctx context.Context, to target, source netip.Addr) (netip.AddrPort, error) {
	network := "ip"
	switch {
	case f.v6 && source.Is4(), f.v4 && source.Is6():
		return netip.AddrPort{}, base.Usage(fmt.Errorf("%v is an address of the other version of IP than was asked for; leave -4 and -6 out", source))
	case f.v4, source.Is4():
		network = "ip4"
	case f.v6, source.Is6():
		network = "ip6"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, to.name)
	none, _ := errors.AsType[*net.AddrError](err) // it has addresses, and none of this version
	switch {
	case none != nil && network != "ip" && !source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("%s has no IPv%s address; leave -%[2]s out if the other version of IP will do", to.name, network[2:])
	case err != nil && network != "ip" && !source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("find an IPv%s address of %s: %w; leave -%[1]s out if the other version of IP will do", network[2:], to.name, err)
	case err != nil && source.IsValid():
		return netip.AddrPort{}, fmt.Errorf("find an address of %s to which %v can send: %w", to.name, source, err)
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("find the address of %s: %w", to.name, err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), to.port), nil
}

// prepare is what every test of a host has in common, sent from a local address unless
// that is empty.
func (f *testFlags) prepare(ctx context.Context, to target, bind string) (probe.Request, error) {
	var r probe.Request
	var err error
	if bind != "" {
		if r.Source, err = localAddress(bind); err != nil {
			return r, base.Usage(err)
		}
	}
	if r.Target, err = f.resolve(ctx, to, r.Source); err != nil {
		return r, err
	}
	if r.Token, err = base.ReadToken(f.tokenFile); err != nil {
		return r, err
	}
	if value[string](f.options, "ftp-server") != "" {
		r.FTPUser = value[string](f.options, "ftp-user")
		if r.FTPPassword, err = readPassword(value[string](f.options, "ftp-password-file")); err != nil {
			return r, err
		}
	}
	return r, nil
}

// localAddress reads an address of this host, which is none where that is left to the
// kernel.
func localAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%q is no address to send from; write one of this host, such as 10.0.5.2", text)
	}
	if a = a.Unmap(); a.IsUnspecified() {
		return netip.Addr{}, nil // the kernel's choice
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return a, fmt.Errorf("%s is no address of this host to send from: %w", text, err)
	}
	return a, c.Close()
}

// readPassword reads a password, without the line's end; no file, no password.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", base.Usage(fmt.Errorf("read the password: %w", err))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
