package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/words"
)

func doctorCommand(s base.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Report what this machine can do for hopbench, and how to fix what it cannot",
		Args:  base.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			missing := 0
			tell := func(f lab.Finding) {
				mark := "ok     "
				switch {
				case !f.OK && f.Required:
					mark = "MISSING"
					missing++
				case !f.OK:
					mark = "absent "
				}
				fmt.Fprintf(s.Out, "%s  %-22s %s\n", mark, f.Name, f.Detail)
				if !f.OK && f.Remedy != "" {
					for line := range strings.Lines(f.Remedy) {
						fmt.Fprintf(s.Out, "         %s\n", strings.TrimRight(line, "\n"))
					}
				}
			}
			for f := range lab.Check(c.Context()) {
				if c.Context().Err() != nil { // it finds what was stopped missing
					return errors.New("stopped before everything was tried")
				}
				tell(f)
			}
			for _, f := range machine() {
				tell(f)
			}
			if missing > 0 {
				return errors.New("the lab cannot run here until what is MISSING above is fixed")
			}
			return nil
		},
	}
}

// machine is what else decides what figures of this machine are worth.
func machine() []lab.Finding {
	var found []lab.Finding
	if runnable, cpus, stolen, err := hostinfo.OthersLoad(); err == nil {
		others := words.OthersLoad(runnable, cpus, stolen)
		found = append(found, lab.Finding{
			Name: "idle CPUs", OK: others == "", Detail: cmp.Or(others, "nothing else runs here, and no hypervisor takes CPU time"),
			Remedy: "stop what else runs here while you measure: what it takes is missing from what is measured, and adds noise",
		})
	}
	if governors := hostinfo.Governors(); len(governors) > 0 {
		found = append(found, lab.Finding{
			Name: "CPU frequency", OK: slices.Equal(governors, []string{"performance"}), Detail: "governor " + strings.Join(governors, ", "),
			Remedy: "sudo cpupower frequency-set -g performance: a CPU that changes its clock while it is measured changes the figures",
		})
	}
	return found
}
