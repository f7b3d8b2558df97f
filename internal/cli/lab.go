package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

func labCommand(s base.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Hold an experiment's lab open, and run programs in its nodes",
		Long: `A lab is the paths of an experiment built from network namespaces on this
machine. It needs no root and leaves nothing behind, however it ends.`,
		Example: `  hopbench lab up routing-appliance
  hopbench lab exec vm1 -- ping -c 3 10.1.1.2

  hopbench lab up fastpath
  hopbench lab switch fast-path`,
	}
	c.AddCommand(labUpCommand(s), labExecCommand(s), labSwitchCommand(s), labListCommand(s))
	return c
}

func labUpCommand(s base.Streams) *cobra.Command {
	var name string
	var watched live.Flags
	c := &cobra.Command{
		Use:               "up EXPERIMENT",
		Short:             "Build the lab of an experiment and keep it until interrupted",
		Args:              base.Exactly("EXPERIMENT"),
		ValidArgsFunction: base.First(completeExperiments),
		RunE: func(c *cobra.Command, args []string) error {
			e, _, err := loadExperiment(args[0])
			if err != nil {
				return err
			}
			if _, err := lab.RuleFiles(e); err != nil {
				return err
			}
			name := cmp.Or(name, e.Name)
			if err := lab.CheckName(name); err != nil {
				return base.Usage(err)
			}
			return watched.Follow(c.Context(), &s, false, "lab "+name, func(tell live.Steps) error {
				return holdLab(c.Context(), s, e, name, tell)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "name for lab exec (default: the experiment's)")
	watched.DefineEvents(c.Flags())
	return c
}

func holdLab(ctx context.Context, s base.Streams, e *experiment.Experiment, name string, tell live.Steps) (err error) {
	held, err := testbedlab.Hold(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := held.Publish(name); err != nil {
		return err
	}
	tell.Note("lab %s is up", name)
	fmt.Fprintf(s.Out, "lab %s is up; run programs in it from another terminal, end it with Ctrl-C\n\n", name)
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tFROM\tTO\tTHROUGH")
	for _, p := range held.Laid() {
		through := make([]string, 0, len(p.Hops))
		for _, h := range p.Hops[:len(p.Hops)-1] {
			if h.IsValid() {
				through = append(through, h.String())
			} else {
				through = append(through, "*")
			}
		}
		if p.VariantOf != "" {
			through = append(through, fmt.Sprintf("(when it is switched to, instead of %s)", p.VariantOf))
		}
		fmt.Fprintf(table, "%s\t%s %v\t%s %v\t%s\n", p.Name, p.SourceNode, p.Source, p.DestinationNode, p.Destination, strings.Join(through, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	first := held.Laid()[0]
	fmt.Fprintf(s.Out, `
for example:
    hopbench lab exec %[1]s -- ping -c 3 %[3]v
    hopbench lab exec %[2]s -- hopbench serve --open    and in another terminal
    hopbench lab exec %[1]s -- hopbench test %[3]v
`, first.SourceNode, first.DestinationNode, first.Destination)
	if i := slices.IndexFunc(held.Laid(), func(p lab.Path) bool { return p.VariantOf != "" }); i >= 0 {
		fmt.Fprintf(s.Out, "    hopbench lab switch %s\n", held.Laid()[i].Name)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-held.Done():
		return held.Err()
	}
}

func labExecCommand(s base.Streams) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT…]",
		Short: "Run a program in a node of a lab that is up",
		Long: `exec runs any program of this machine in the network namespace of a node of a
lab that another terminal holds open with "hopbench lab up", with this
terminal's input and output. Its exit status is the program's.

Only the user who holds a lab can do this, and not from inside a container. Programs that
change to another user, as tcpdump does, can do so only in a lab that root holds.`,
		Example: `  hopbench lab exec vm1 -- ping -c 3 10.1.1.2
  hopbench lab exec --lab my-lab vm2 -- ss -tin`,
		Args: func(c *cobra.Command, args []string) error {
			if node, command := splitExec(args); node == "" || len(command) == 0 {
				return base.Usage(errors.New("lab exec needs a NODE and a COMMAND: hopbench lab exec vm1 -- ip addr"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			name, err := pickLab(name)
			if err != nil {
				return err
			}
			stdout, stderr, err := descriptors(s)
			if err != nil {
				return err
			}
			node, command := splitExec(args)
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, append(base.HangUp(), os.Interrupt, syscall.SIGTERM)...)
			defer signal.Stop(signals)
			if _, err := exec.LookPath(command[0]); err != nil && command[0] == "hopbench" {
				if command[0], err = os.Executable(); err != nil { // nobody has to install it
					return err
				}
			}
			// Signals are the program's to act on: ping prints its summary
			// on the first interrupt.
			code, err := lab.ExecIn(context.WithoutCancel(c.Context()), name, node, lab.Command{
				Argv: command, Stdin: s.In, Stdout: stdout, Stderr: stderr, Signals: signals,
			})
			if err != nil {
				return err
			}
			if code != 0 {
				return base.StatusError(code)
			}
			return nil
		},
	}
	labFlag(c, &name)
	c.Flags().SetInterspersed(false)
	return c
}

// labFlag adds --lab, which pickLab reads.
func labFlag(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "lab", "", "which lab, when more than one is up (see hopbench lab list)")
	base.Complete(c, "lab", completeLabs)
}

// splitExec divides NODE -- COMMAND…; the dashes may be left out.
func splitExec(args []string) (node string, command []string) {
	if len(args) == 0 {
		return "", nil
	}
	node, command = args[0], args[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	return node, command
}

// descriptors are the files behind the streams, which a program in another
// process can write to.
func descriptors(s base.Streams) (stdout, stderr *os.File, err error) {
	stdout, ok1 := base.FileOf(s.Out)
	stderr, ok2 := base.FileOf(s.Err)
	if !ok1 || !ok2 {
		return nil, nil, errors.New("lab exec needs real standard output and error files")
	}
	return stdout, stderr, nil
}

// pickLab is the lab meant by name, which may be empty when one is up.
func pickLab(name string) (string, error) {
	up, err := lab.Running()
	if err != nil {
		return "", err
	}
	switch {
	case slices.Contains(up, name):
		return name, nil
	case name != "":
		return "", fmt.Errorf("no lab %q is up; hopbench lab list shows those that are", name)
	case len(up) == 0:
		return "", errors.New("no lab is up; hold one open in another terminal with: hopbench lab up EXPERIMENT")
	case len(up) == 1:
		return up[0], nil
	default:
		return "", base.Usage(fmt.Errorf("several labs are up (%s); say which with --lab", strings.Join(up, ", ")))
	}
}

func labListCommand(s base.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the labs that are up, and their nodes",
		Args:  base.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			up, err := lab.Running()
			if err != nil {
				return err
			}
			var broken []error
			for _, name := range up {
				nodes, err := nodesOf(c.Context(), name)
				if err != nil {
					broken = append(broken, err)
					continue
				}
				fmt.Fprintf(s.Out, "%s: %s\n", name, strings.Join(nodes, " "))
			}
			if len(up) == 0 {
				fmt.Fprintln(s.Err, "no lab is up")
			}
			return errors.Join(broken...)
		},
	}
}

// nodesOf asks a lab, but not for longer than one takes that is not stopped.
func nodesOf(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	nodes, err := lab.NodesOf(ctx, name)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("lab %s does not answer: its process may be stopped", name)
	}
	return nodes, err
}

func labSwitchCommand(s base.Streams) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "switch [PATH]",
		Short: "Switch a lab that is up to another path",
		Long: `switch turns hops on or off in a lab that another terminal holds open with
"hopbench lab up". PATH is a variant_of another path, which bypasses some hops, or
that other path, with all hops. Nodes and
addresses stay, packets in flight arrive, and connections continue. Measurements
right after a switch may still include both paths; a run waits for the path's
settle time.

Without PATH it lists the paths that you can switch to.`,
		Example: `  hopbench lab switch
  hopbench lab switch fast-path
  hopbench lab switch --lab my-lab gateway`,
		Args: base.AtMost("PATH"),
		ValidArgsFunction: base.First(func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return switchedNames(c, name), cobra.ShellCompDirectiveNoFileComp
		}),
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
			fmt.Fprintf(s.Out, "path %s of lab %s is in force\n", args[0], name)
			return nil
		},
	}
	labFlag(c, &name)
	return c
}

// listSwitched lists the paths of a lab that can be switched to.
func listSwitched(c *cobra.Command, s base.Streams, name string) error {
	paths, err := lab.SwitchedPathsOf(c.Context(), name)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		fmt.Fprintf(s.Err, "no path of lab %s is switched in place\n", name)
		return nil
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
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
