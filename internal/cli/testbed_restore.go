package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/testbed/switching"
)

func testbedRestoreCommand(s base.Streams) *cobra.Command {
	var watched live.Flags
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the switches of a testbed after a killed run",
		Long: `restore runs the commands of a testbed file that restore its switches: to the
values of restore: in the file, or else to those that a run found before
its first command and could not restore itself, because it was killed or a
command failed. FILE.found keeps these values until they are restored.

It reads every value back, and proves it if the switch has proof: command. It measures
nothing and contacts no end.`,
		Example:           `  hopbench testbed restore office.yaml`,
		Args:              base.Exactly("FILE"),
		ValidArgsFunction: base.First(completeYAML),
		RunE: func(c *cobra.Command, args []string) error {
			base.OutliveReader()
			return watched.Follow(c.Context(), &s, false, "restore of "+args[0], func(tell live.Steps) error {
				return restoreTestbed(c.Context(), s, args[0], tell)
			})
		},
	}
	watched.DefineEvents(c.Flags())
	return c
}

func restoreTestbed(ctx context.Context, s base.Streams, file string, tell live.Steps) error {
	in, err := loadTestbed(file, nil)
	if err != nil {
		return err
	}
	switcher, err := switching.New(switching.Options{
		Switches: in.Switches, Paths: in.Paths, Dir: in.Dir, Journal: switching.JournalOf(file),
	})
	if err != nil {
		return err
	}
	restored, err := switcher.Restore(ctx)
	for _, name := range slices.Sorted(maps.Keys(restored)) {
		tell.Note("%s: %s", name, restored[name])
		if _, failed := fmt.Fprintf(s.Out, "%s: %s\n", name, restored[name]); failed != nil {
			return errors.Join(failed, err)
		}
	}
	if err == nil && len(restored) == 0 {
		_, err = fmt.Fprintf(s.Out, "there is nothing to restore: no run has left %s behind, and no switch that a path sets says with restore: its value\n", switching.JournalOf(file))
	}
	return err
}
