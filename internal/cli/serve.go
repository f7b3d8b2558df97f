package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/probe"
)

type serveFlags struct {
	port        uint16
	bind        string
	tokenFile   string
	open        bool
	maxClients  int
	maxFlows    int
	maxDuration time.Duration
}

func serveCommand(s streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Be the far end of tests",
		Long: `serve answers "hopbench test HOST". A traffic generator is a weapon if anyone
may aim it, so without a token it listens on loopback only, unless --open says
that anyone who reaches the port may use it.`,
		Example: `  head -c 24 /dev/urandom | base64 > token
  hopbench serve --token-file token      and: hopbench test HOST --token-file token
  hopbench serve --open                  on a network you trust`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), s, f) },
	}
	flags := c.Flags()
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "port to listen on")
	flags.StringVarP(&f.bind, "bind", "B", "", "address to listen on (default: all with a token or --open, else loopback)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the shared token; clients must prove it")
	flags.BoolVar(&f.open, "open", false, "serve anyone who reaches the port")
	flags.IntVar(&f.maxClients, "max-clients", 64, "tests at the same time")
	flags.IntVar(&f.maxFlows, "max-flows", 256, "flows of one test")
	flags.DurationVar(&f.maxDuration, "max-duration", time.Hour, "longest test")
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
	server, err := probe.NewServer(probe.ServerOptions{
		Token: token, Open: f.open,
		MaxTests: f.maxClients, MaxFlows: f.maxFlows, MaxDuration: f.maxDuration,
	})
	if err != nil {
		return usageError{err}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(bind, strconv.Itoa(int(f.port))))
	if err != nil {
		return fmt.Errorf("%w; another server may be on port %d, choose one with --port", err, f.port)
	}
	fmt.Fprintf(s.err, "serving on %v, end with Ctrl-C\n", listener.Addr())
	if token == "" && !f.open {
		fmt.Fprintln(s.err, "only clients on this machine are served; let others in with --token-file FILE or --open")
	}
	if err := server.Serve(ctx, listener); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
