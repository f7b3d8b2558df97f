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
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
)

// defaultPort is iperf3's, so that firewalls opened for it serve hopbench too.
const defaultPort = probe.DefaultPort

// tokenFileEnv names the token's file where --token-file does not.
const tokenFileEnv = "HOPBENCH_TOKEN_FILE"

type testFlags struct {
	port      uint16
	tokenFile string
	bind      string
	v4, v6    bool

	only     []string
	udp      bool
	duration secondsValue
	rate     rateValue
	dscp     dscpValue
	device   string

	flows          int
	reverse, bidir bool

	upload                                       bool
	file                                         sizeValue
	ftpServer, ftpPath, ftpUser, ftpPasswordFile string
	ftpCRC32                                     string

	omit           secondsValue
	window         sizeValue
	mss            int
	congestion     string
	zerocopy, copy bool
	mptcp          bool
	iperf3         bool
	cport          uint16
	length         sizeValue
	gso, gro       switchValue
	lossBound      fractionValue

	protocol          string
	request, response sizeValue
	requestsPerSecond float64
	inFlight          int
	spin              bool
	interval          secondsValue
	count             int
	timeout           secondsValue
	maxHops           int

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

Without flags it takes a complete profile in about 20 seconds: the hops, the
path MTU each way, the idle latency, the throughput of one flow and of as many
as fill the path, the same back, the latency under that load, the loss of
datagrams at half of that rate, and the three metrics of RFC 6349. A step that
fails is a line in the summary; the others go on.

Flags choose a single test, as for iperf3 and ping: -u means datagrams; -P, -R,
--bidir, -w, -M, -C, -Z, -m, -O or -i mean TCP; --request, --in-flight or --spin
mean latency (rr); -c means ping. --only names the kinds instead:

    tcp    bulk TCP            udp    datagrams, their loss and jitter
    pps    small packets       rr     requests and responses: latency
    crr    new connections     load   latency without and under load
    ftp    transfer of a file  mtu    largest packet
    ping, trace                these need no server

A file over FTP is checked by a digest. --ftp-server HOST --ftp-path FILE fetches
one from a stock server instead, with -P in so many segments at the same time.

-p, -B, -4, -6, -t, -b, -S, --dscp and --device keep the profile; -b is then the
bottleneck bandwidth against which RFC 6349 rates it, and elsewhere the rate of
all flows together. Times are seconds or have a unit (10, 500ms), rates and sizes
are written as for iperf3 (1G, 64K) or with their unit (1Gbit, 64kB).

docs/test.md explains every flag and every line of the summary.`,
		Example: `  hopbench test 192.0.2.7
  hopbench test 192.0.2.7 -b 1G                     rate the profile against 1 Gbit/s
  hopbench test 192.0.2.7 -P 8 -t 30 -R             8 flows back, as with iperf3
  hopbench test 192.0.2.7 -u -b 500M                datagrams
  hopbench test 192.0.2.7 --only rr,load --json     latency, idle and loaded
  hopbench test 192.0.2.7 --iperf3 -P 4             against a stock iperf3 server`,
		Args: func(c *cobra.Command, args []string) error {
			if f.ftpServer != "" && len(args) == 0 {
				return nil
			}
			return exactly("HOST")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			f := f
			to, err := f.whom(args)
			if err != nil {
				return usageError{err}
			}
			given := func(flag string) bool {
				return c.Flags().Changed(flag) || flag == "device" && f.device != ""
			}
			kinds, err := f.chooseKinds(given)
			if err != nil {
				return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
			}
			todo, err := f.sequence(kinds, given)
			if err != nil {
				return usageError{err}
			}
			return measureHost(c.Context(), s, &f, to, todo, probe.Run)
		},
	}
	f.define(c)
	completeTest(c)
	return c
}

// define binds the flags.
func (f *testFlags) define(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.SetNormalizeFunc(asIPerf3Says)
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "port of the server")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv(tokenFileEnv), "file that holds the server's token (environment: "+tokenFileEnv+")")
	flags.StringVarP(&f.bind, "bind", "B", "", "local address to send from")
	flags.StringVar(&f.device, "device", "", "network interface to send from; HOST%DEVICE says the same")
	flags.BoolVarP(&f.v4, "ipv4", "4", false, "use IPv4 only")
	flags.BoolVarP(&f.v6, "ipv6", "6", false, "use IPv6 only")

	flags.StringSliceVar(&f.only, "only", nil, "only these kinds of test: "+names(measurement.Kinds()))
	flags.BoolVarP(&f.udp, "udp", "u", false, "datagrams: --only udp")
	flags.VarP(&f.duration, "duration", "t", "measured time of each throughput or load test (default 10 s; in a profile 2 to 3 s)")
	flags.VarP(&f.rate, "rate", "b", "udp: rate of all flows together, 0 for as fast as can be (the default); tcp: pace the flows; profile: the bottleneck's bandwidth")
	flags.VarP(tosValue{&f.dscp}, "tos", "S", "type of service byte of the packets, such as 0xb8")
	flags.Var(&f.dscp, "dscp", "code point of the packets: 0 to 63, or a name such as EF, AF41, LE")

	flags.IntVarP(&f.flows, "flows", "P", 0, "number of flows at the same time (default 1; load 8); ftp: segments of the file")
	flags.BoolVarP(&f.reverse, "reverse", "R", false, "the server sends, this host receives")
	flags.BoolVar(&f.bidir, "bidir", false, "both send at the same time, on flows of their own")
	flags.Var(&f.file, "file", "ftp: size of the file (default 1GB)")
	flags.BoolVar(&f.upload, "upload", false, "ftp: this host stores the file, in one piece")
	flags.StringVar(&f.ftpServer, "ftp-server", "", "ftp: a stock FTP server, as HOST[:PORT] (port 21), instead of hopbench serve")
	flags.StringVar(&f.ftpPath, "ftp-path", "", "ftp: file to fetch from it")
	flags.StringVar(&f.ftpUser, "ftp-user", "", "ftp: user there (default anonymous)")
	flags.StringVar(&f.ftpPasswordFile, "ftp-password-file", "", "ftp: file that holds that user's password")
	flags.StringVar(&f.ftpCRC32, "ftp-crc32", "", "ftp: CRC-32 that the file must have, eight hexadecimal digits")
	flags.VarP(&f.omit, "omit", "O", "tcp, load: longest discarded start, which ends once the rate is steady; else the discarded start")
	flags.VarP(&f.interval, "interval", "i", "print the received rate in these intervals; ping: time between requests (default 20 ms)")
	flags.VarP(&f.window, "window", "w", "clamp the receive window of each flow, such as 1.33MB")
	flags.IntVarP(&f.mss, "mss", "M", 0, "largest TCP segment in bytes")
	flags.StringVarP(&f.congestion, "congestion", "C", "", "TCP congestion control algorithm")
	flags.BoolVarP(&f.zerocopy, "zerocopy", "Z", false, "send by reference (splice(2), sendfile(2)): the kernel copies nothing")
	flags.BoolVar(&f.copy, "copy", false, "copy the payload at both ends, as an application does")
	flags.BoolVarP(&f.mptcp, "mptcp", "m", false, "use Multipath TCP where both ends have it")
	flags.Uint16Var(&f.cport, "cport", 0, "port to send from; each further flow takes the next")
	flags.BoolVar(&f.iperf3, "iperf3", false, "the other end is a stock iperf3 server")

	flags.VarP(&f.length, "length", "l", "payload of each packet (udp, pps, ping), or of request and response (rr, crr)")
	flags.Var(&f.gso, "gso", "have the kernel cut large UDP buffers into packets: on, off or auto")
	flags.Var(&f.gro, "gro", "have the kernel join UDP packets on receipt: on, off or auto")
	flags.Var(&f.lossBound, "loss-bound", "udp, pps: search for the highest rate (up to -b) that loses no more, such as 0.1%")

	flags.StringVar(&f.protocol, "protocol", "", "rr, load: tcp or udp; trace: tcp, udp or icmp")
	flags.Var(&f.request, "request", "size of each request")
	flags.Var(&f.response, "response", "size of each response")
	flags.Float64Var(&f.requestsPerSecond, "requests-per-second", 0, "send requests at this rate whether or not answers came (open loop)")
	flags.IntVar(&f.inFlight, "in-flight", 0, "requests that wait for their answer at the same time (default 1)")
	flags.BoolVar(&f.spin, "spin", false, "poll instead of sleeping, at both ends: the path without the wake-up")
	flags.IntVarP(&f.count, "count", "c", 0, "number of echo requests (default 20)")
	flags.Var(&f.timeout, "timeout", "how long one probe or answer is waited for")
	flags.IntVar(&f.maxHops, "max-hops", 0, "furthest hop of a trace (default 30)")

	flags.BoolVarP(&f.json, "json", "J", false, "print the result as JSON (format "+result.Format+") and nothing else")
	flags.BoolVar(&f.markdown, "markdown", false, "print the summary as Markdown")
	flags.BoolVarP(&f.verbose, "verbose", "V", false, "print every metric, and what was effective")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	c.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	c.MarkFlagsMutuallyExclusive("tos", "dscp")
	c.MarkFlagsMutuallyExclusive("reverse", "bidir")
	c.MarkFlagsMutuallyExclusive("zerocopy", "copy")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
}

// asIPerf3Says lets the long names of iperf3's flags name those here.
func asIPerf3Says(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "time":
		name = "duration"
	case "parallel":
		name = "flows"
	case "bitrate", "bandwidth":
		name = "rate"
	case "len":
		name = "length"
	case "set-mss":
		name = "mss"
	case "bind-dev":
		name = "device"
	}
	return pflag.NormalizedName(name)
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
	switch {
	case f.ftpServer == "" && f.ftpPath+f.ftpUser+f.ftpPasswordFile+f.ftpCRC32 != "":
		return target{}, errors.New("--ftp-path, --ftp-user, --ftp-password-file and --ftp-crc32 belong to a stock server; name it with --ftp-server")
	case f.ftpServer == "":
		return f.target(args[0])
	case len(args) > 0:
		return target{}, fmt.Errorf("%s and --ftp-server %s name two hosts; leave one out", args[0], f.ftpServer)
	case f.ftpPath == "":
		return target{}, errors.New("--ftp-server needs the file to fetch from it; give --ftp-path")
	}
	g := *f
	g.port = ftpPort
	to, err := g.target(f.ftpServer)
	f.device = g.device
	return to, err
}

// target takes HOST[%DEVICE][:PORT] apart; a device goes into f.
func (f *testFlags) target(arg string) (target, error) {
	to := target{arg, f.port}
	if host, port, err := net.SplitHostPort(arg); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return to, fmt.Errorf("%q is not a port", port)
		}
		to = target{host, uint16(n)}
	}
	host, device, found := strings.Cut(to.name, "%")
	if !found {
		return to, nil
	}
	if device == "" || f.device != "" && f.device != device {
		return to, fmt.Errorf("%s and --device %q do not name one interface", arg, f.device)
	}
	f.device = device
	if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || !a.IsLinkLocalUnicast() {
		to.name = host // only a link-local address keeps its zone
	}
	return to, nil
}

// resolve finds the address of a host.
func (f *testFlags) resolve(ctx context.Context, to target) (netip.AddrPort, error) {
	network := "ip"
	switch {
	case f.v4:
		network = "ip4"
	case f.v6:
		network = "ip6"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, to.name)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find the address of %s: %w", to.name, err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), to.port), nil
}

// prepare is what every test of this host has in common.
func (f *testFlags) prepare(ctx context.Context, to target) (probe.Request, error) {
	var r probe.Request
	var err error
	if r.Target, err = f.resolve(ctx, to); err != nil {
		return r, err
	}
	if r.Token, err = readToken(f.tokenFile); err != nil {
		return r, err
	}
	if f.ftpServer != "" {
		r.FTPUser = f.ftpUser
		if r.FTPPassword, err = readPassword(f.ftpPasswordFile); err != nil {
			return r, err
		}
	}
	if f.bind != "" {
		if r.Source, err = netip.ParseAddr(f.bind); err != nil {
			return r, usageError{fmt.Errorf("--bind: %w", err)}
		}
	}
	return r, nil
}

// readPassword reads a password, without the line's end; no file, no password.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
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
