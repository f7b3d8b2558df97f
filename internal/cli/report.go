package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/report/figure"
)

func reportCommand(s base.Streams) *cobra.Command {
	var json, verbose bool
	var picture string
	var over runs.Matters
	var watched live.Flags
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Rebuild a run's report from its stored trials, without measuring",
		Long: `report rebuilds a run's report from its stored trials, without measuring.

--matters judges the run again by other smallest effects that matter. The report states
this; the run keeps its own.`,
		Example: `  hopbench report hopbench-runs/2026-11-21T09-30-00-routing-appliance
  hopbench report DIR --matters rtt=50us      judge again, where 50 µs matter
  hopbench report DIR --picture result.svg     the costs, to put into a page of your own`,
		Args: base.Exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if picture != "" && !strings.EqualFold(filepath.Ext(picture), ".svg") {
				return base.Usage(fmt.Errorf("--picture %s: the picture is SVG; write a name that ends in .svg, which a browser opens and rsvg-convert or inkscape makes a PNG or PDF of", picture))
			}
			return watched.Follow(c.Context(), &s, json, "report of "+args[0], func(tell live.Steps) (err error) {
				st, err := runs.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, st.Close()) }()
				result, err := runs.Report(c.Context(), st, over, func(step string) { tell.Tell(event.Note, step) })
				if result == nil {
					return err
				}
				if picture != "" {
					if bad := atomicfile.Write(picture, func(w io.Writer) error { return figure.Picture(w, result) }); bad != nil {
						err = errors.Join(err, bad)
					} else {
						tell.Note("%s", picture)
					}
				}
				return runs.PrintResult(s, result, err, st.Dir(), json, verbose)
			})
		},
	}
	c.Flags().StringVar(&picture, "picture", "", "also draw the costs as an SVG picture into this file, NAME.svg")
	c.Flags().BoolVarP(&json, "json", "J", false, "print result.json on standard output and nothing else there")
	runs.VerboseFlag(c.Flags(), &verbose)
	watched.DefineEvents(c.Flags())
	over.Define(c, "judge again by these margins: ")
	return c
}
