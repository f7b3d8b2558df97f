// Package testcmd is `hopbench test`: its flags, the tests of one path to a host, and the
// comparison of several (--versus).
package testcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
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
	Host
	only []string
	udp  bool
	options

	// versus are the other ways to the host, as they were written.
	versus []string

	blocks  int
	explain bool
	out     string
	matters runs.Matters
	// command repeats the test.
	command []string
	// watched says who else is told of each step, on stream.
	watched live.Flags
	stream  *event.Stream

	json, markdown, verbose, quiet bool
}

// Command is `hopbench test`.
func Command(s base.Streams) *cobra.Command {
	f := testFlags{}
	c := &cobra.Command{
		Use:   "test HOST[%DEVICE][:PORT]",
		Short: "Measure the path to a host that runs hopbench serve",
		Long: `test measures the path to a host that runs "hopbench serve", and
prints figures that the receiver confirmed. The agents of a lab run the same
code.

Without flags it takes a complete profile in about 15 seconds: the hops, the
path MTU in each direction, the idle latency, the throughput of one flow and of as many
as fill the path, the same in reverse, the latency under that load, the loss of
datagrams at half of that rate, and the three metrics of RFC 6349. The summary
shows a failed step; the other steps still run.

Flags choose a single test, as in iperf3 and ping: -u selects UDP; -P, -R,
--bidir, -w, -M, -C, -Z, -m, -O or -i select TCP; --request, --in-flight or --spin
select latency (rr); -c selects ping. --only names the kinds instead:

` + kindsHelp() + `
A digest verifies a file over FTP. --ftp-server HOST --ftp-path FILE fetches
one from a stock server instead; -P sets the number of parallel segments.

-p, -B, -4, -6, -t, -b, -S, --dscp and --device do not turn off the profile. In a profile,
-b is the bottleneck bandwidth for the RFC 6349 ratings; otherwise it is the rate of
all flows together. Times are in seconds or have a unit (10, 500ms). Write rates and
sizes as for iperf3 (1G, 64K) or with their unit (1Gbit, 64kB).

--versus compares two paths to the host. It names what differs on the second one: its
address or port, or the source address (bind=), interface (device=) or code point
(dscp=) of the packets, separated by commas. Each test then runs on every path in
randomised blocks, and the report shows what the other paths cost compared with HOST,
with intervals, as hopbench run does. Repeat it for a third path. Without a flag that
chooses a test it runs tcp (one flow, 2 s) and rr; without --blocks it runs the
fewest blocks that can show an effect.

docs/test.md explains every flag and every line of the summary.`,
		Example: `  hopbench test 192.0.2.7
  hopbench test 192.0.2.7 -b 1G                     rate the profile against 1 Gbit/s
  hopbench test 192.0.2.7 -P 8 -t 30 -R             8 flows in reverse, as with iperf3
  hopbench test 192.0.2.7 -u -b 500M                datagrams
  hopbench test 192.0.2.7 --only rr,load --json     latency, idle and loaded
  hopbench test 192.0.2.7 --iperf3 -P 4             against a stock iperf3 server
  hopbench test 10.0.0.7 --versus 203.0.113.9       what the path by the other address costs
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
			if f.out != "" { // else there is nothing to do for nobody
				base.OutliveReader()
			}
			if f.blocks < 1 || f.blocks > maxTestBlocks {
				return base.Usage(fmt.Errorf("--blocks %d: do the tests 1 to %d times", f.blocks, maxTestBlocks))
			}
			to, err := f.whom(args, c.Flags().Changed("port"))
			if err == nil {
				err = f.Check(to)
			}
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
			f.watched.Folder = f.out
			views, err := f.watched.Open(c.Context(), &s, f.json)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, views.Close()) }()
			f.stream = views.Stream
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
	f.Host.Define(c, "")
	flags.StringSliceVar(&f.only, "only", nil, "only these kinds of test: "+names(measurement.Kinds()))
	flags.BoolVarP(&f.udp, "udp", "u", false, "UDP: --only udp")
	f.options.define(c)

	flags.StringArrayVar(&f.versus, versusFlag, nil, "compare with another path to the host: [HOST][%DEVICE][:PORT], or bind=, device=, dscp=, separated by commas")
	flags.IntVar(&f.blocks, "blocks", 1, "repeat all tests this many times: first in the given order, then in random order (with --"+versusFlag+": default the fewest that can show an effect)")
	flags.BoolVar(&f.explain, "explain", false, "if nothing shows what limits a tcp test, repeat it with one thing changed; a profile does this by itself")
	f.matters.Define(c, "store with the run ")
	flags.StringVarP(&f.out, "out", "o", "", "keep the trials in this folder, with a report; see hopbench report and compare")

	flags.BoolVarP(&f.json, "json", "J", false, "print the result as JSON (format "+result.Format+") and nothing else")
	flags.BoolVar(&f.markdown, "markdown", false, "print the summary as Markdown")
	flags.BoolVarP(&f.verbose, "verbose", "V", false, "print every metric and every effective setting")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	f.watched.DefineEvents(flags)
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	c.MarkFlagsMutuallyExclusive(versusFlag, "explain")
}

// ftpPort is where FTP servers listen (RFC 959).
const ftpPort = 21

// whom is the host that is measured to: a stock FTP server has a flag of its own. The port may
// be a flag's, too.
func (f *testFlags) whom(args []string, portGiven bool) (Target, error) {
	server, path := value[string](f.options, "ftp-server"), value[string](f.options, "ftp-path")
	switch {
	case server == "" && path+value[string](f.options, "ftp-user")+value[string](f.options, "ftp-password-file")+value[string](f.options, "ftp-crc32") != "":
		return Target{}, errors.New("--ftp-path, --ftp-user, --ftp-password-file and --ftp-crc32 belong to a stock server; name it with --ftp-server")
	case server != "" && len(args) > 0:
		return Target{}, fmt.Errorf("%s and --ftp-server %s name two hosts; leave one out", args[0], server)
	case server != "" && path == "":
		return Target{}, errors.New("--ftp-server needs the file to fetch from it; give --ftp-path")
	}
	host, port := server, f.Port
	if server == "" {
		host = args[0]
	} else if !portGiven {
		port = ftpPort
	}
	to, err := f.target(host, port)
	if err == nil && portGiven && to.Port != f.Port {
		return to, fmt.Errorf("%s and --port %d do not name one port", host, f.Port)
	}
	return to, err
}

// target takes HOST[%DEVICE][:PORT] apart; a device becomes that of the tests.
func (f *testFlags) target(arg string, defaultPort uint16) (Target, error) {
	to, device, err := SplitTarget(arg, defaultPort)
	given := value[string](f.options, "device")
	if err == nil && given != "" && onLink(to.Name) {
		to.Name += "%" + given
	}
	if err != nil || device == "" {
		return to, err
	}
	if given != "" && given != device {
		return to, fmt.Errorf("%s and --device %q do not name one interface", arg, given)
	}
	if !strings.Contains(to.Name, "%") { // an address on a link has its interface itself, for tests that take none, too
		f.options.give("device", device)
	}
	return to, nil
}

// prepare is what every test of a host has in common, sent from a local address unless
// that is empty.
func (f *testFlags) prepare(ctx context.Context, to Target, bind string) (probe.Request, error) {
	r, err := f.Prepare(ctx, to, bind)
	if err != nil || value[string](f.options, "ftp-server") == "" {
		return r, err
	}
	r.FTPUser = value[string](f.options, "ftp-user")
	r.FTPPassword, err = readPassword(value[string](f.options, "ftp-password-file"))
	return r, err
}

// readPassword reads a password, without the line's end; no file, no password.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := base.ReadBounded(file, base.MaxSecretBytes)
	if err != nil {
		return "", base.Usage(fmt.Errorf("read the password: %w", err))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
