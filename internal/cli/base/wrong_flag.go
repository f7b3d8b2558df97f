package base

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/spelling"
)

// foreignFlag is a flag that iperf3 has and no command here takes as it stands.
type foreignFlag struct {
	name, short string
	instead     string // a sentence that says what to write, without a full stop
}

// iperf3Flags are those of iperf3 3.21 that `hopbench test` and `hopbench serve` do not
// have, each with what does the same. docs/iperf3.md has this table too, and a test holds
// both to iperf3's own --help.
var iperf3Flags = []foreignFlag{
	{"server", "s", "the server is a separate command: hopbench serve --open, or with --token-file"},
	{"client", "c", "write the host without a flag: hopbench test HOST"},
	{"daemon", "D", "hopbench serve stays in the foreground: start it with systemd, or use hopbench agent install"},
	{"server-bitrate-limit", "", "hopbench serve --max-rate limits the rate of each test"},
	{"server-max-duration", "", "hopbench serve --max-duration limits each test"},
	{"idle-timeout", "", "leave it out: the test of a silent client ends by itself, and delays no other client"},
	{"pidfile", "I", "use the shell: hopbench serve ... & echo $! > FILE"},
	{"bytes", "n", "a test has a duration, -t, so that the warm-up can be discarded; for a number of bytes: --only ftp --file 1GB"},
	{"blockcount", "k", "a test has a duration, -t, so that the warm-up can be discarded; for a number of bytes: --only ftp --file 1GB"},
	{"file", "F", "hopbench generates the file: --only ftp --file SIZE; for a file of a stock FTP server: --ftp-server and --ftp-path"},
	{"version", "v", "hopbench version"},
	{"format", "f", "the unit is chosen automatically; --json has bits per second"},
	{"affinity", "A", "start it as taskset -c 0 hopbench ...; --colocate runs both ends of rr and crr on one CPU"},
	{"json-stream", "", "-i prints intervals, and --json prints all of them at the end"},
	{"json-stream-full-output", "", "-i prints intervals, and --json prints all of them at the end"},
	{"logfile", "", "use the shell: > FILE 2>&1; --out DIR keeps the trials and a report"},
	{"forceflush", "", "leave it out: each line is written at once"},
	{"timestamps", "", "pipe it into ts (of moreutils); --json has the time of each trial"},
	{"title", "T", "--out NAME keeps the trials and a report under a name"},
	{"extra-data", "", "--out NAME keeps the trials and a report under a name"},
	{"rcv-timeout", "", "leave it out: a test ends by itself, with a message, if the other end falls silent"},
	{"snd-timeout", "", "leave it out: a test ends by itself, with a message, if the other end falls silent"},
	{"connect-timeout", "", "leave it out: connecting fails after 5 s"},
	{"cntl-ka", "", "leave it out: a test ends by itself, with a message, if the other end falls silent"},
	{"debug", "d", "-V prints every metric and every effective setting"},
	{"pacing-timer", "", "leave it out: -b paces TCP in the kernel"},
	{"fq-rate", "", "use -b: it paces TCP in the kernel (SO_MAX_PACING_RATE)"},
	{"no-delay", "N", "leave it out: rr and crr never delay small segments, and bulk data has none"},
	{"flowlabel", "L", "not supported: the kernel chooses the flow label"},
	{"skip-rx-copy", "", "leave it out: the receiver discards in the kernel, unless --copy is given"},
	{"get-server-output", "", "leave it out: the figures are the receiver's, and --json has both ends"},
	{"udp-counters-64bit", "", "leave it out: sequence numbers may wrap"},
	{"gsro", "", "leave it out: the kernel segments and joins datagrams if it can (--gso, --gro)"},
	{"repeating-payload", "", "leave it out: the payload is always repeated noise"},
	{"dont-fragment", "", "leave it out: --only mtu finds the largest unfragmented packet in each direction"},
	{"no-fq-socket-pacing", "", "leave it out: TCP without -b is not paced"},
	{"linux-congestion", "", "use -C"},
	{"sctp", "", noSCTP},
	{"xbind", "X", noSCTP},
	{"nstreams", "", noSCTP},
	{"username", "", noUsers},
	{"rsa-public-key-path", "", noUsers},
	{"rsa-private-key-path", "", noUsers},
	{"authorized-users-path", "", noUsers},
	{"time-skew-threshold", "", noUsers},
	{"use-pkcs1-padding", "", noUsers},
}

// iperf3ServerFlags are those that an iperf3 server has as well as a client, and `hopbench serve`,
// unlike `hopbench test`, has not.
var iperf3ServerFlags = []foreignFlag{
	{"interval", "i", "leave it out: the client prints intervals, and hopbench serve the start and the end of each test"},
	{"verbose", "V", "leave it out: the client has the figures of both ends"},
	{"json", "J", "leave it out: the client has the figures of both ends; --metrics is for programs"},
	{"version4", "4", "leave it out: with --open or a token, hopbench serve listens on both; --bind 0.0.0.0 is IPv4 alone"},
	{"version6", "6", "leave it out: with --open or a token, hopbench serve listens on both; --bind names one address"},
	{"mptcp", "m", "leave it out: hopbench serve uses MPTCP with the clients that ask for it"},
	{"bind-dev", "", "use --bind with an address of that interface"},
}

// What is said of several flags.
const (
	noSCTP  = "not supported: hopbench tests TCP, MPTCP and UDP"
	noUsers = "use --token-file at both ends: who has the token may test"
)

// FlagError says what is wrong with a flag, and what to write instead.
func FlagError(c *cobra.Command, err error) error {
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return unknownCommand(c, c.Flags().Args()) // what its flags are cannot be known
	}
	see := "see " + c.CommandPath() + " --help"
	if absent, ok := errors.AsType[*pflag.NotExistError](err); ok {
		written, shorthand := "--"+absent.GetSpecifiedName(), absent.GetSpecifiedShortnames() != ""
		if shorthand {
			written = "-" + absent.GetSpecifiedName()[:1]
		}
		if advice := insteadOf(c, written); advice != "" {
			see = advice
		}
		return Usage(fmt.Errorf("%s has no %s; %s", c.CommandPath(), written, see))
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := bad.GetFlag()
		if _, err := strconv.ParseFloat(bad.GetValue(), 64); flag.Name == "count" && bad.GetValue() != "" && err != nil {
			see = "to measure to a host, write it alone: hopbench test " + bad.GetValue()
		}
		return Usage(fmt.Errorf("--%s %q: %s; %s", flag.Name, bad.GetValue(), numberError(bad.Unwrap()), see))
	}
	return Usage(fmt.Errorf("%w; %s", err, see))
}

// likeIPerf3 says whether a command is one that a user of iperf3 would write: another means something
// else by a flag of that name.
func likeIPerf3(c *cobra.Command) bool {
	return !c.HasParent() || c.Name() == "test" || c.Name() == "serve"
}

// insteadOf is what to write for a flag that a command does not have, if that is known.
func insteadOf(c *cobra.Command, written string) string {
	flags := iperf3Flags
	if c.Name() == "serve" {
		flags = slices.Concat(flags, iperf3ServerFlags)
	}
	for _, f := range flags {
		if likeIPerf3(c) && (written == "--"+f.name || f.short != "" && written == "-"+f.short) {
			return f.instead
		}
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	for _, f := range kind.Flags() {
		for _, alias := range f.Aliases {
			if c.Flags().Lookup(alias) != nil {
				known = append(known, alias)
			}
		}
	}
	if near := spelling.Nearest(strings.TrimLeft(written, "-"), known); near != "" {
		return "did you mean --" + near + "?"
	}
	return ""
}

// numberError is what is wrong with a number, without the name of the function that reads
// numbers.
func numberError(err error) error {
	if strings.HasPrefix(err.Error(), "time: missing unit") {
		return errors.New("it has no unit; write it as in 90s, 10m or 2h")
	}
	for _, function := range []string{"strconv.", "time: "} {
		if strings.HasPrefix(err.Error(), function) {
			return errors.New("it is not a number that this flag takes")
		}
	}
	return err
}

// excluding reads the words with which the library refuses flags that exclude, or that need,
// each other.
func excluding(err error) (error, bool) {
	text := err.Error()
	if !strings.HasPrefix(text, "if any flags in the group") {
		return err, false
	}
	if _, missing, found := strings.Cut(text, "; missing ["); found {
		lack := strings.Fields(strings.TrimSuffix(missing, "]"))
		_, group, _ := strings.Cut(text, "[")
		group, _, _ = strings.Cut(group, "]")
		given := slices.DeleteFunc(strings.Fields(group), func(flag string) bool { return slices.Contains(lack, flag) })
		return fmt.Errorf("--%s is missing, without which --%s means nothing", strings.Join(lack, " and --"), strings.Join(given, " and --")), true
	}
	_, given, _ := strings.Cut(text, "; [")
	given, _, _ = strings.Cut(given, "]")
	both := strings.Fields(given)
	if len(both) < 2 {
		return err, true
	}
	slices.Sort(both)
	return fmt.Errorf("--%s exclude each other; leave one out", strings.Join(both, " and --")), true
}
