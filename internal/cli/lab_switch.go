package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/lab"
)

func labSwitchCommand(s streams) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "switch [PATH]",
		Short: "Bring a path of a lab that is up into force, in place of another",
		Long: `switch turns hops of a lab on or off that another terminal holds open with
"hopbench lab up": PATH is one that the experiment describes as a variant_of
another, which bypasses some hops, or that other one, with all hops. Nodes and
addresses stay, packets under way arrive, and connections go on. What is measured
right after a switch may still be of both paths; a run waits for the path's
settle time.

Without PATH it lists the paths that can be switched to.`,
		Example: `  hopbench lab switch
  hopbench lab switch fast-path
  hopbench lab switch --lab my-lab gateway`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("PATH")(c, args)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return switchedNames(c, name), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			name, err := pickLab(name)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listSwitched(c, s, name)
			}
			if err := lab.SwitchIn(c.Context(), name, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "path %s of lab %s is in force\n", args[0], name)
			return nil
		},
	}
	labFlag(c, &name)
	return c
}

// listSwitched lists the paths of a lab that can be switched to.
func listSwitched(c *cobra.Command, s streams, name string) error {
	paths, err := lab.SwitchedPathsOf(c.Context(), name)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		fmt.Fprintf(s.err, "no path of lab %s is switched in place\n", name)
		return nil
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tON THE NODES OF\tIN FORCE")
	for _, p := range paths {
		inForce := "no"
		if p.InForce {
			inForce = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, p.Of, inForce)
	}
	return table.Flush()
}

// switchedNames completes a PATH from the lab that is meant; where that is not
// clear there is nothing to complete.
func switchedNames(c *cobra.Command, name string) []string {
	name, err := pickLab(name)
	if err != nil {
		return nil
	}
	paths, err := lab.SwitchedPathsOf(c.Context(), name)
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range paths {
		if !p.InForce {
			names = append(names, p.Name)
		}
	}
	return names
}

func completeLabs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	up, err := lab.Running()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return up, cobra.ShellCompDirectiveNoFileComp
}
