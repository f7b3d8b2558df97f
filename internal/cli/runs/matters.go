package runs

import (
	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
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
	var keys []string
	for _, name := range experiment.ShortMatterNames() {
		keys = append(keys, name+"=")
	}
	base.Complete(c, MattersFlag, base.ListOf(keys...))
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
