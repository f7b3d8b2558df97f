package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/endpoint"
	"github.com/hopbench/hopbench/internal/cli/testcmd"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/testutil"
)

// TestEveryFlagIsDocumented holds that docs/test.md and docs/options.md have each
// flag of test and serve with its short form.
func TestEveryFlagIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/test.md")
	testutil.OK(t, err)
	options, err := os.ReadFile("../../docs/options.md")
	testutil.OK(t, err)
	page, served, found := strings.Cut(string(text), "\n## `hopbench serve`\n")
	if !found {
		t.Fatal("there is no section on serve")
	}
	for section, c := range map[string]*cobra.Command{page + string(options): testcmd.Command(base.Streams{}), served: endpoint.ServeCommand(&endpoint.Metrics{})} {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			if f.Name == "ipv4" || f.Name == "ipv6" {
				name = "`-" + f.Shorthand + "`"
			}
			if !strings.Contains(section, name) {
				t.Errorf("docs/test.md lacks %s of %s", name, c.Name())
			}
		})
	}
}

// Where nobody knows how wide a terminal is, help is at most 100 columns wide.
func TestHelpIsNarrow(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for line := range strings.Lines(c.Long + "\n" + c.UsageString()) {
			if columns := typeset.Columns(line); columns > 100 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), columns, line)
			}
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(rootCommand(base.Streams{}))
}
