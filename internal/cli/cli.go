// Package cli is the command line: one file per subcommand. It is the only
// place that knows all the other packages, and wires them together.
//
// What goes where: results go to standard output; progress, hints and errors
// go to standard error. With --json, standard output holds one JSON document
// and nothing else. The exit status is 0 when done, 1 when something failed
// or was stopped, 2 when the command line or an input file is wrong, 3 when a
// comparison found what it was told to fail on.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFound  = 3
)

// streams are where a command reads and writes.
type streams struct {
	in  *os.File
	out io.Writer
	err io.Writer
}

// Main runs one command line, args without the program's name, and returns
// the exit status.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)

	root := rootCommand(streams{in: stdin, out: stdout, err: stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitStatus(root.ExecuteContext(ctx), stderr)
}

func rootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "hopbench",
		Short: "Measure what a hop costs",
		Long: `hopbench measures what a hop on a network path costs: how much throughput,
latency and loss a router, firewall, tunnel or gateway takes, whether the
difference is real, and what the bottleneck is.

Start with the experiment that needs nothing but this machine:

    hopbench run routing-appliance

or measure one path between two hosts:

    hopbench serve --open          on the far host
    hopbench test HOST             here`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure:"},
		&cobra.Group{ID: "results", Title: "Results:"},
		&cobra.Group{ID: "machine", Title: "This machine:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("measure", runCommand(s), testCommand(s), serveCommand(s), experimentsCommand(s), testbedCommand(s))
	add("results", reportCommand(s), compareCommand(s), resultsCommand(s))
	add("machine", labCommand(s), doctorCommand(s))
	root.AddCommand(versionCommand(s), agentCommand())
	return root
}

// usageError marks an error in the command line or an input file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError is an exit status of a program that hopbench ran for the user.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	var status statusError
	if errors.As(err, &status) {
		return int(status)
	}
	// What is wrong with a file is said with its name and line, as compilers do.
	var bad strict.Errors
	if errors.As(err, &bad) {
		fmt.Fprintln(stderr, shownLines(bad.Error(), ""))
		return exitUsage
	}
	var rules *lab.RuleFileError
	if errors.As(err, &rules) {
		fmt.Fprintln(stderr, shownLines(err.Error(), "  "))
		return exitUsage
	}
	fmt.Fprintf(stderr, "hopbench: %s\n", shownLines(err.Error(), "  "))
	var usage usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group") {
		return exitUsage
	}
	return exitFailed
}

// exactly is cobra.ExactArgs with a message that says what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{fmt.Errorf("%s needs %s; see %s --help", c.CommandPath(), strings.Join(names[len(args):], " and "), c.CommandPath())}
		case len(args) > len(names):
			return usageError{fmt.Errorf("%s does not take %q; see %s --help", c.CommandPath(), args[len(names)], c.CommandPath())}
		}
		return nil
	}
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and those of the formats",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.out, "hopbench %s (%s, %s/%s)\nexperiment format %s\ntestbed format %s\nresult format %s\n",
				hostinfo.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, experiment.Format, inventory.Format, result.Format)
			return err
		},
	}
}

// maxShown bounds, in characters, a text that somebody else wrote.
const maxShown = 1000

// shown is a line that may come from a file of a stranger, a peer or a lab,
// made safe for a terminal.
func shown(text string) string { return printable.Line(text, maxShown) }

// shownLines is shown of a text of several lines. What follows the first begins
// with indent, so that a line of somebody else's does not look like one of ours.
func shownLines(text, indent string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = shown(lines[i])
	}
	return strings.Join(lines, "\n"+indent)
}
