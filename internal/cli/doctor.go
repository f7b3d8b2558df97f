package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/lab"
)

func doctorCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do for hopbench, and how to fix what it cannot",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			missing := 0
			for _, f := range lab.Check(c.Context()) {
				mark := "ok     "
				switch {
				case !f.OK && f.Required:
					mark = "MISSING"
					missing++
				case !f.OK:
					mark = "absent "
				}
				fmt.Fprintf(s.out, "%s  %-22s %s\n", mark, f.Name, f.Detail)
				if !f.OK && f.Remedy != "" {
					for line := range strings.Lines(f.Remedy) {
						fmt.Fprintf(s.out, "         %s\n", strings.TrimRight(line, "\n"))
					}
				}
			}
			if missing > 0 {
				return errors.New("the lab cannot run here until what is MISSING above is fixed")
			}
			return nil
		},
	}
}
