package base

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/hostinfo"
)

// AddVersion has a program print its version, the commit it was built from, the formats it
// reads and writes, by name, and what else it has to say of itself, in lines.
func AddVersion(root *cobra.Command, short, more string, formats map[string]string) {
	build := hostinfo.ThisBuild()
	print := func(c *cobra.Command, _ []string) error {
		var b strings.Builder
		fmt.Fprintf(&b, "hopbench %s (%s, %s/%s)\n", build.Version, build.Go, build.OS, build.Arch)
		if build.Commit != "" {
			fmt.Fprintf(&b, "commit %s", build.Commit)
			if build.CommitTime != "" {
				fmt.Fprintf(&b, " of %s", build.CommitTime)
			}
			if build.Modified {
				b.WriteString(", with changes")
			}
			b.WriteString("\n")
		}
		b.WriteString(more)
		for _, name := range slices.Sorted(maps.Keys(formats)) {
			fmt.Fprintf(&b, "%s format %s\n", name, formats[name])
		}
		_, err := io.WriteString(c.OutOrStdout(), b.String())
		return err
	}
	var asJSON bool
	command := &cobra.Command{Use: "version", Short: short, Args: Exactly(), RunE: func(c *cobra.Command, args []string) error {
		if !asJSON {
			return print(c, args)
		}
		return WriteJSON(c.OutOrStdout(), struct {
			hostinfo.Build
			Formats map[string]string `json:"formats,omitempty"`
		}{build, formats})
	}}
	command.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	root.AddCommand(command)
	// The library's own flag needs text/template, with which the linker keeps 3 MB more.
	asked := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, args []string) error {
		if *asked {
			return print(c, args)
		}
		return c.Help()
	}
}
