package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/environment"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and those of the formats",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.out, "hopbench %s (%s, %s/%s)\nexperiment format %s\nresult format %s\n",
				environment.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, experiment.Format, measurement.ResultFormat)
			return err
		},
	}
}
