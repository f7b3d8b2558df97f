// Package endpoint is the commands of a machine at an end of a path: agent and serve. It is
// also the whole command line of the slim program (build tag agent), which is these and
// nothing else, so that what it imports has to be small.
package endpoint

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
)

// Main runs one command line of the slim program, args without the program's name, and
// returns the exit status.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "hopbench",
		Short: "Run an end of a measured path",
		Long: `This is the slim hopbench for a machine at an end of a path. It works for
the coordinator of an experiment (agent), and answers tests of other machines
(serve, here without --metrics).

It does not run its own experiments or tests, keep results, or build reports and labs. The
full hopbench does: go build ./cmd/hopbench, without -tags agent. The two interoperate
if they have the same version.`,
	}
	root.AddCommand(AgentCommand(), ServeCommand(nil))
	base.AddVersion(root, "Print the version and the commit", "the slim program: agent and serve\n", nil)
	out := base.NewOutput(stdout)
	err := out.Failed(base.Execute(root, args, stdin, out, stderr))
	if _, unknown := errors.AsType[*base.UnknownCommand](err); unknown {
		err = fmt.Errorf("%w: this is the slim program, which has agent, serve and version; the whole hopbench has the others", err)
	}
	return base.Status(err, stderr)
}
