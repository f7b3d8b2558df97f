package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/agent"
)

// controlDescriptor is where whoever starts an agent puts its control
// connection: the first descriptor after the standard ones.
const controlDescriptor = 3

// agentCommand is what testbeds start at the ends of paths; people use serve
// and test.
func agentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Take trials over the control connection on file descriptor 3",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file := os.NewFile(controlDescriptor, "control")
			if file == nil {
				return usageError{errors.New("agent needs its control connection on file descriptor 3; testbeds start it, people use hopbench serve and hopbench test")}
			}
			conn, err := net.FileConn(file)
			if err != nil {
				return usageError{fmt.Errorf("take the control connection on file descriptor 3: %w", err)}
			}
			if err := file.Close(); err != nil {
				return errors.Join(err, conn.Close())
			}
			spareProcessor()
			return agent.Serve(c.Context(), conn, agent.Options{})
		},
	}
}

// spareProcessor keeps flows from waiting for each other where there is one
// processor: their system calls block, and a blocked call gives its Go
// CPU back only after a while.
func spareProcessor() {
	const enough = 4
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(enough)
	}
}
