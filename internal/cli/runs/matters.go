package runs

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// MattersFlag sets the smallest effects that matter, by metric.
const MattersFlag = "matters"

// Matters is the value of MattersFlag, by the full names of metrics.
type Matters map[string]measurement.Margin

// Define adds the flag to a command; its usage begins with what the command does by the
// margins.
func (m *Matters) Define(c *cobra.Command, does string) {
	c.Flags().Var(m, MattersFlag, does+"the smallest effects that matter, as in rtt=50us,goodput=3%")
	if err := c.RegisterFlagCompletionFunc(MattersFlag, completeMatters); err != nil {
		panic(err) // there is no such flag: a mistake above
	}
}

// Set reads margins and adds them to those that were given before.
func (m *Matters) Set(text string) error {
	if before := m.String(); before != "" {
		text = before + "," + text
	}
	all, err := experiment.ParseMatters(text)
	*m = all
	return err
}

func (m *Matters) String() string { return experiment.FormatMatters(*m) }

// Type is what the help text calls the value.
func (m *Matters) Type() string { return "METRIC=MARGIN,..." }

// completeMatters completes the metric of the last of a list of margins, with those
// that are not in it yet.
func completeMatters(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []string
	for _, name := range experiment.ShortMatterNames() {
		if !slices.ContainsFunc(strings.Split(before, ","), func(given string) bool { return strings.HasPrefix(given, name+"=") }) {
			out = append(out, before+name+"=")
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
