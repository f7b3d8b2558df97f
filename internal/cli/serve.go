package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
)

type serveFlags struct {
	port        uint16
	bind        string
	tokenFile   string
	open        bool
	iperf3Open  bool
	ftp         uint16
	ftpPorts    portsValue
	maxClients  int
	maxFlows    int
	maxRate     rateValue
	maxDuration time.Duration
	oneOff      bool
	quiet       bool
}

func serveCommand(s streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Be the far end of tests",
		Long: `serve answers "hopbench test HOST", and iperf3 clients on the same port. A
traffic generator is a weapon if anyone may aim it, so without a token it listens
on loopback only, unless --open says that anyone who reaches the port may use it.

iperf3 clients cannot prove a token. A server that wants one serves them only
with --iperf3-open. Nor can FTP clients: --ftp PORT lets those on this machine
fetch files of any size, and with --open anyone who reaches the port.`,
		Example: `  head -c 24 /dev/urandom | base64 > token
  hopbench serve --token-file token      and: hopbench test HOST --token-file token
  hopbench serve --open                  on a network you trust
  hopbench serve --open -1               until one client is done`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return serve(c.Context(), s, f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "port to listen on, TCP and UDP")
	flags.StringVarP(&f.bind, "bind", "B", "", "address to listen on (default: all with a token or --open, else loopback)")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv(tokenFileEnv), "file that holds the shared token; clients must prove it (environment: "+tokenFileEnv+")")
	flags.BoolVar(&f.open, "open", false, "serve anyone who reaches the port")
	flags.BoolVar(&f.iperf3Open, "iperf3-open", false, "serve iperf3 clients although there is a token, which they cannot prove")
	flags.Uint16Var(&f.ftp, "ftp", 0, "port for stock FTP clients, who fetch files named by their size, such as 1GB.bin (default: none)")
	flags.Var(&f.ftpPorts, "ftp-ports", "LOW-HIGH: ports for sessions and data of ftp tests, and data of --ftp (default: any)")
	flags.IntVar(&f.maxClients, "max-clients", 64, "tests at the same time")
	flags.IntVar(&f.maxFlows, "max-flows", probe.MaxFlows, "flows of one test")
	flags.Var(&f.maxRate, "max-rate", "highest rate that a UDP or iperf3 test may ask for, such as 1G (default: any)")
	flags.DurationVar(&f.maxDuration, "max-duration", time.Hour, "longest test")
	flags.BoolVarP(&f.oneOff, "one-off", "1", false, "end once the first client is done")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no line for each test")
	return c
}

func serve(ctx context.Context, s streams, f serveFlags) error {
	spareProcessor()
	token, err := readToken(f.tokenFile)
	if err != nil {
		return err
	}
	bind := f.bind
	if bind == "" && token == "" && !f.open {
		bind = "127.0.0.1"
	}
	if bind != "" {
		if _, err := netip.ParseAddr(bind); err != nil {
			return usageError{fmt.Errorf("--bind: %w", err)}
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := &serveLog{w: s.err, quiet: f.quiet}
	if f.oneOff {
		log.idle = stop
	}
	defer log.end()
	options := probe.ServerOptions{
		Token: token, Open: f.open, IPerf3Open: f.iperf3Open,
		MaxTests: f.maxClients, MaxFlows: f.maxFlows, MaxDuration: f.maxDuration, MaxRateBitsPerSecond: float64(f.maxRate),
		// A test of both directions has twice its flows, and each test one
		// connection beside its flows.
		MaxConnections: 2*f.maxFlows + f.maxClients,
		FTPPorts:       ftp.Ports(f.ftpPorts),
		OnTest:         log.event,
	}
	if !f.quiet {
		options.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	server, err := probe.NewServer(options)
	if err != nil {
		return usageError{err}
	}
	var config net.ListenConfig
	config.SetMultipathTCP(true) // clients that want it get it; the others get plain TCP
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(bind, strconv.Itoa(int(f.port))))
	if err != nil {
		return fmt.Errorf("%w; another server may be on port %d, choose one with --port", err, f.port)
	}
	files, who, err := newFTPServer(ctx, f, log, options.Log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Fprintf(s.err, "serving on %v, end with Ctrl-C\n%s%s", listener.Addr(), whoIsServed(token != "", f), who)
	group, ctx := errgroup.WithContext(ctx)
	if files != nil {
		defer context.AfterFunc(ctx, files.Close)()
		group.Go(files.Serve)
	}
	group.Go(func() error { return server.Serve(ctx, listener) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// whoIsServed says which languages the server speaks, and with whom.
func whoIsServed(token bool, f serveFlags) string {
	var b strings.Builder
	who, iperf3 := "anyone who reaches this port", "the same"
	switch {
	case token:
		who, iperf3 = "clients that prove the token", "nobody, since its clients cannot prove the token (--iperf3-open serves them)"
		if f.iperf3Open {
			iperf3 = "anyone who reaches this port"
		}
	case !f.open:
		who = "clients on this machine; let others in with --token-file FILE or --open"
	}
	fmt.Fprintf(&b, "  hopbench: %s\n  iperf3:   %s\n", who, iperf3)
	return b.String()
}

// oneOffGrace is how long a server that serves one client waits for that
// client's next test: a profile has several, and latency under load is two.
const oneOffGrace = 2 * time.Second

// serveLog writes a line for the beginning and the end of each test, and knows
// when the server has nothing to do any more.
type serveLog struct {
	w     io.Writer
	quiet bool
	// idle, when set, is called once no test has run for oneOffGrace after the
	// first one.
	idle func()

	mu      sync.Mutex
	running int
	timer   *time.Timer
}

// Write lets a handler of slog share the lines.
func (l *serveLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (l *serveLog) event(e probe.TestEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.quiet {
		fmt.Fprintf(l.w, "%s  %v  %s\n", time.Now().Format(time.TimeOnly), e.Client, eventText(e))
	}
	if !e.Ended {
		l.running++
		if l.timer != nil {
			l.timer.Stop()
		}
		return
	}
	if l.running--; l.running == 0 && l.idle != nil {
		l.timer = time.AfterFunc(oneOffGrace, l.done)
	}
}

// done ends a server whose client did not come back.
func (l *serveLog) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 {
		l.idle()
	}
}

func (l *serveLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// eventText is a test's beginning or end in a few words.
func eventText(e probe.TestEvent) string {
	text := describe(e.Spec)
	switch {
	case !e.Ended:
		return text + ": began"
	case e.Vanished:
		return fmt.Sprintf("%s: closed by the client after %.1f s", text, e.Elapsed.Seconds())
	case e.Err != nil:
		return fmt.Sprintf("%s: failed after %.1f s: %s", text, e.Elapsed.Seconds(), printable(e.Err.Error()))
	}
	return fmt.Sprintf("%s: done in %.1f s", text, e.Elapsed.Seconds())
}

// printable keeps what a client wrote from steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// describe names what a test does.
func describe(spec measurement.Spec) string {
	parts := []string{string(spec.Kind)}
	if spec.Tool == measurement.IPerf3 {
		parts[0] += " (iperf3)"
	}
	if spec.Protocol != "" {
		parts = append(parts, "over "+string(spec.Protocol))
	}
	switch {
	case spec.FileBytes > 0 && spec.Flows > 1:
		parts = append(parts, fmt.Sprintf("%s in %s", quantity.Format(float64(spec.FileBytes), measurement.Bytes), quantity.Count(spec.Flows, "segment")))
	case spec.FileBytes > 0:
		parts = append(parts, quantity.Format(float64(spec.FileBytes), measurement.Bytes))
	case spec.Flows > 0:
		parts = append(parts, quantity.Count(spec.Flows, "flow"))
	}
	switch spec.Direction {
	case measurement.Send:
		parts = append(parts, "to here")
	case measurement.Receive:
		parts = append(parts, "from here")
	case measurement.Both:
		parts = append(parts, "both ways")
	}
	if spec.RateBitsPerSecond > 0 {
		parts = append(parts, "at "+quantity.Format(spec.RateBitsPerSecond, measurement.BitsPerSecond))
	}
	if spec.Duration > 0 {
		parts = append(parts, experiment.FormatDuration(spec.Duration.Duration()))
	}
	return strings.Join(parts, ", ")
}
