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
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/endpoint"
	"github.com/hopbench/hopbench/internal/cli/testcmd"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/metrics"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Main runs one command line, args without the program's name, and returns
// the exit status.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	out := base.NewOutput(stdout)
	err := out.Failed(base.Execute(rootCommand(base.Streams{In: stdin, Out: out, Err: stderr}), args, stdin, out, stderr))
	// What is wrong with a file is said with its name and line, as compilers do.
	if bad, ok := errors.AsType[strict.Errors](err); ok {
		fmt.Fprintln(stderr, base.ShownLines(bad.Error(), ""))
		return base.ExitUsage
	}
	if _, ok := errors.AsType[*lab.RuleFileError](err); ok {
		fmt.Fprintln(stderr, base.ShownLines(err.Error(), "  "))
		return base.ExitUsage
	}
	return base.Status(err, stderr)
}

// Command is the command line, for whoever writes of it: manuals and completion.
func Command() *cobra.Command {
	return rootCommand(base.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

func rootCommand(s base.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "hopbench",
		Short: "Measure what a hop costs",
		Long: `hopbench measures what a hop on a network path costs: how much throughput,
latency and loss a router, firewall, tunnel or gateway costs, whether the
difference is real, and where the bottleneck is.

Start with an experiment that needs only this machine:

    hopbench run routing-appliance

or measure one path between two hosts:

    hopbench serve --open          on the far host
    hopbench test HOST             on this host`,
	}
	// Flags are explained in lines that fit the terminal.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |",
		fmt.Sprintf(".FlagUsagesWrapped %d |", base.TerminalWidth(s.Out))))
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
	add("measure", runCommand(s), testcmd.Command(s), watchCommand(s), endpoint.ServeCommand(&endpoint.Metrics{Listen: metrics.Listen, Serve: metrics.Serve}), endpoint.AgentCommand(), experimentsCommand(s), testbedCommand(s))
	add("results", reportCommand(s), compareCommand(s), exportCommand(s), resultsCommand(s), uiCommand(s))
	add("machine", labCommand(s), doctorCommand(s))
	base.AddVersion(root, "Print the version, the commit, and the versions of the formats", "",
		map[string]string{"experiment": experiment.Format, "testbed": inventory.Format, "result": result.Format})
	return root
}
