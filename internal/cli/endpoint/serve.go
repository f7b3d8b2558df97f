package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
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
	maxRate     base.OptionValue
	maxDuration time.Duration
	maxMemory   base.OptionValue
	spin        bool
	metrics     string
	oneOff      bool
	quiet       bool
}

// Metrics is how Prometheus gets at what a server does.
type Metrics struct {
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Serve  func(ctx context.Context, at net.Listener, stats func() probe.Stats) error
}

// ServeCommand is `hopbench serve`, without metrics where m is nil.
func ServeCommand(m *Metrics) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve tests as the far end",
		Long: `serve answers "hopbench test HOST", and iperf3 clients on the same port. A
traffic generator that anyone can aim is a weapon, so without a token it listens
on loopback only, unless --open allows anyone who reaches the port to use it.

No client can use all of the server: the length and number of tests are limited, each
client address can use a share of the resources of this process, and a refused client
learns which limit it hit. On SIGTERM, running tests finish and no new ones start.

iperf3 clients cannot prove a token. A server with a token serves them only
with --iperf3-open. FTP clients cannot prove one, either: --ftp PORT lets those on this
machine fetch files of any size, and with --open anyone who reaches the port.`,
		Example: `  (umask 077; head -c 24 /dev/urandom | base64 > token)
  hopbench serve --token-file token      and: hopbench test HOST --token-file token
  hopbench serve --open                  on a network you trust
  hopbench serve --open -1               until one client is done`,
		Args:              base.Exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return serve(c.Context(), c.ErrOrStderr(), f, m) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Uint16VarP(&f.port, "port", "p", measurement.DefaultPort, "port to listen on, TCP and UDP")
	flags.StringVarP(&f.bind, "bind", "B", "", "address to listen on (default: all with a token or --open, otherwise 127.0.0.1)")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv(base.TokenFileEnv), "file that holds the shared token; clients must prove it (environment: "+base.TokenFileEnv+")")
	flags.BoolVar(&f.open, "open", false, "serve anyone who reaches the port")
	flags.BoolVar(&f.iperf3Open, "iperf3-open", false, "serve iperf3 clients although there is a token, which they cannot prove")
	flags.Uint16Var(&f.ftp, "ftp", 0, "port for stock FTP clients, which fetch files named by their size, such as 1GB.bin (default: none)")
	flags.Var(&f.ftpPorts, "ftp-ports", "LOW-HIGH: ports for sessions and data of ftp tests, and data of --ftp (default: any)")
	flags.IntVar(&f.maxClients, "max-clients", 64, "tests at the same time, iperf3's included")
	flags.IntVar(&f.maxFlows, "max-flows", probe.MaxFlows, "flows of one test")
	f.maxRate.Flag.Type, f.maxMemory.Flag.Type = kind.Rate, kind.Size
	flags.Var(&f.maxRate, "max-rate", "highest rate of one test of any kind, all its flows together, such as 1G (default: any)")
	flags.DurationVar(&f.maxDuration, "max-duration", time.Hour, "longest test, all its parts together")
	flags.Var(&f.maxMemory, "max-memory", "most memory for tests, such as 2GB (default: half of what this process may use)")
	flags.BoolVar(&f.spin, "spin", false, "allow rr tests to poll at this end, which takes whole CPUs from all others")
	if m != nil {
		flags.StringVar(&f.metrics, "metrics", "", "ADDRESS:PORT at which Prometheus finds /metrics (default: none)")
	}
	flags.BoolVarP(&f.oneOff, "one-off", "1", false, "exit when the first client is done")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no line for each test")
	return c
}

func serve(ctx context.Context, stderr io.Writer, f serveFlags, m *Metrics) error {
	base.SpareProcessor()
	token, err := base.ReadToken(f.tokenFile)
	if err != nil {
		return err
	}
	if f.maxClients <= 0 || f.maxFlows <= 0 || f.maxDuration <= 0 {
		return base.Usage(errors.New("--max-clients, --max-flows and --max-duration must be more than 0"))
	}
	bind := f.bind
	if bind == "" && token == "" && !f.open {
		bind = "127.0.0.1"
	}
	var address netip.Addr // none is all
	if bind != "" {
		address, err = netip.ParseAddr(bind)
		switch {
		case err != nil:
			return base.Usage(fmt.Errorf("--bind %s: write an address of this host, such as 10.0.0.7, 0.0.0.0 or ::1", strconv.Quote(bind)))
		case token == "" && !f.open && !address.Unmap().IsLoopback():
			return base.Usage(fmt.Errorf("--bind %s: others can reach this address, and without a token anyone could aim traffic with this server: add --token-file FILE, or --open", bind))
		}
	}
	warnOfToken(stderr, f.tokenFile, token)
	lines := base.NewLineWriter(stderr)
	defer lines.Close()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	log := &serveLog{w: lines, quiet: f.quiet}
	if f.oneOff {
		log.idle = stop
	}
	defer log.end()
	options := probe.ServerOptions{
		Token: token, Open: f.open, IPerf3Open: f.iperf3Open,
		MaxTests: f.maxClients, Limits: probe.Limits{MaxFlows: f.maxFlows, MaxDuration: f.maxDuration, MaxRateBitsPerSecond: f.maxRate.Number()},
		MaxMemoryBytes: int64(f.maxMemory.Number()), Spin: f.spin,
		FTPPorts: ftp.Ports(f.ftpPorts),
		OnTest:   log.event,
	}
	if !f.quiet {
		options.Log = base.NewLog(lines)
	}
	server, err := probe.NewServer(options)
	if err != nil {
		return base.Usage(err)
	}
	keepBelow(hostinfo.MaxMemoryBytes())
	files, who, err := newFTPServer(ctx, f, address, log, options.Log, server.AdmitFTP)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(serving)
	metricsAt := ""
	if f.metrics != "" {
		at, err := m.Listen(groupCtx, f.metrics)
		if err != nil {
			return base.Usage(fmt.Errorf("--metrics: %w; write an address and a port, such as 127.0.0.1:9150", err))
		}
		metricsAt = fmt.Sprintf("  metrics:  http://%v/metrics\n", at.Addr())
		group.Go(func() error { return m.Serve(groupCtx, at, server.Stats) })
	}
	listener, err := listen(ctx, server, bind, f.port)
	if err != nil {
		if files != nil {
			files.Close()
		}
		return err
	}
	fmt.Fprintf(stderr, "serving on %v, end with Ctrl-C\n%s%s%s%s", listener.Addr(), whoIsServed(token != "", f), who, metricsAt, whatIsAllowed(options.Limits, server.Stats().Limits))
	if why := listener.LacksUDP(); why != nil {
		fmt.Fprintf(stderr, "  UDP:      none, tests over it are refused: %v\n", why)
	}
	if files != nil {
		defer context.AfterFunc(groupCtx, files.Close)()
		group.Go(files.Serve)
	}
	group.Go(func() error {
		defer stop() // whatever ends it, ends the others
		return listener.Serve(groupCtx)
	})
	defer endWith(ctx, stop, func() <-chan struct{} {
		fmt.Fprintf(lines, "ending: no new tests; %s in progress (a second signal ends at once)\n", quantity.Count(int(server.Stats().Used[admission.Tests]), "test"))
		drained := server.Drain()
		if files != nil { // whose sessions outlive their transfers
			files.Drain()
		}
		return drained
	})()
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// listen binds a port with TCP and UDP: port, or with 0 one that is free with both.
func listen(ctx context.Context, server *probe.Server, bind string, port uint16) (*probe.Listener, error) {
	tries := 1
	if port == 0 {
		tries = 20
	}
	var listener *probe.Listener
	var err error
	for range tries {
		var tcp net.Listener
		if tcp, err = probe.ListenTCP(ctx, net.JoinHostPort(bind, strconv.Itoa(int(port)))); err != nil {
			break
		}
		if listener, err = server.Bind(tcp); err == nil {
			return listener, nil
		}
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, base.Usage(fmt.Errorf("--bind %s is no address of this host: %w", bind, err))
	}
	return nil, unbound(err, "--port")
}

// unbound says what to do about a port that could not be bound, and how to choose another.
func unbound(err error, choose string) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; this user may not have that port, choose one from 1024 up with %s", err, choose)
	}
	return fmt.Errorf("%w; another program may have the port, choose one with %s", err, choose)
}

// endWith ends a server when ctx does: at once, or after SIGTERM when drain has
// brought the running tests to their end. The returned function forgets it.
func endWith(ctx context.Context, stop func(), drain func() <-chan struct{}) (forget func()) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		defer stop()
		select {
		case <-ctx.Done():
		case <-over.Done():
			return
		}
		signal.Stop(terminated) // after this the channel has what was sent
		select {
		case <-terminated:
		default:
			return
		}
		select {
		case <-drain():
		case <-over.Done():
		}
	})
	return func() {
		end()
		done.Wait()
		signal.Stop(terminated)
	}
}

// keepBelow sets a soft limit of memory below most, in bytes, at which this process
// would be killed; 0 is unknown.
func keepBelow(most int64) {
	const part = 0.8
	if most > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(part * float64(most)))
	}
}

// leastToken is the length in bytes below which a token can be guessed from a proof.
const leastToken = 16

// warnOfToken says what is wrong with a token that works all the same.
func warnOfToken(w io.Writer, file, token string) {
	if token == "" {
		return
	}
	if len(token) < leastToken {
		fmt.Fprintf(w, "warning: the token has only %d bytes, and anyone who sees one proof of it can guess it: make a longer one with: (umask 077; head -c 24 /dev/urandom | base64 > %s)\n", len(token), printable.ShellWord(file))
	}
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 && !isCredential(file) {
		fmt.Fprintf(w, "warning: others on this machine can read the token: chmod 600 %s\n", printable.ShellWord(file))
	}
}

// isCredential says that systemd gave a file to this service alone: an access control list says to
// whom, and the mode shows to its group what that list allows anybody (acl(5)).
func isCredential(file string) bool {
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	return folder != "" && filepath.Dir(file) == filepath.Clean(folder)
}

// whatIsAllowed says what one test and all together may take.
func whatIsAllowed(one probe.Limits, limits admission.Cost) string {
	memory := "any amount" // the system does not say how much there is
	if most := limits[admission.Bytes]; most > 0 {
		memory = quantity.Format(float64(most), measurement.Bytes)
	}
	return fmt.Sprintf("  one test: %s\n  together: %s, %d connections, %d threads, %s of memory; one client address: three quarters of that, or a quarter of what others leave\n",
		oneTest(one), quantity.Count(int(limits[admission.Tests]), "test"), limits[admission.Descriptors], limits[admission.Threads], memory)
}

// whoIsServed says which protocols the server speaks, and with whom.
func whoIsServed(token bool, f serveFlags) string {
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
	return fmt.Sprintf("  hopbench: %s\n  iperf3:   %s\n", who, iperf3)
}
