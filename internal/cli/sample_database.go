package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/sink/azuretable"
	"github.com/hopbench/hopbench/internal/fleet/sink/postgres"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/store"
)

// sinkFlags say into which database the samples of a fleet are put.
type sinkFlags struct{ to, connection string }

func (f *sinkFlags) define(c *cobra.Command) {
	names := slices.Sorted(maps.Keys(sinks))
	c.Flags().StringVar(&f.to, "to", "", "write a fleet's samples into a database: "+strings.Join(names, ", "))
	c.Flags().StringVar(&f.connection, "connection-file", "", "file with the connection: a URL or libpq keywords, or an Azure connection string")
	c.MarkFlagsRequiredTogether("to", "connection-file")
	base.Complete(c, "to", base.OneOf(names...))
}

// words are the flags as a shell takes them, after a space; nothing where there are none.
func (f sinkFlags) words() string {
	if f.to == "" {
		return ""
	}
	return " --to " + f.to + " --connection-file " + printable.ShellWord(f.connection)
}

// sinks are the databases.
var sinks = map[string]func(ctx context.Context, connection, run string) (samples.Sink, error){
	"postgres": func(ctx context.Context, connection, run string) (samples.Sink, error) {
		return postgres.Open(ctx, connection, run)
	},
	"azure-table": func(ctx context.Context, connection, run string) (samples.Sink, error) {
		return azuretable.Open(ctx, connection, run)
	},
}

// opener opens the database for the samples of a run. The file is read each time: what is in it,
// such as a password or a signature that expires, may be replaced while a run goes on.
func (f sinkFlags) opener(head store.Head) (func(context.Context) (samples.Sink, error), error) {
	open, ok := sinks[f.to]
	if !ok {
		return nil, base.Usage(fmt.Errorf("samples cannot be put into %q; write --to %s", f.to, strings.Join(slices.Sorted(maps.Keys(sinks)), " or ")))
	}
	if _, err := readConnection(f.connection); err != nil {
		return nil, base.Usage(err)
	}
	return func(ctx context.Context) (samples.Sink, error) {
		connection, err := readConnection(f.connection)
		if err != nil {
			return nil, err
		}
		return open(ctx, connection, runName(head))
	}, nil
}

// runName tells a run from others, the same when it is resumed.
func runName(head store.Head) string {
	return head.Name + " " + head.Started.UTC().Format(time.RFC3339Nano)
}

// maxConnectionFile bounds a file that is no connection string but something else.
const maxConnectionFile = 16 << 10

// readConnection reads a secret that says how to reach a database.
func readConnection(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the connection file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConnectionFile+1))
	connection := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the connection file: %w", err)
	case connection == "" || len(text) > maxConnectionFile:
		return "", fmt.Errorf("the connection file %s is empty or too large; it has one line, such as postgres://user:password@host/database", file)
	}
	return connection, nil
}
