package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
)

func reportCommand(s streams) *cobra.Command {
	var json, verbose bool
	var picture string
	var over matters
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "Make a run's report again from its stored trials, without measuring",
		Long: `report makes a run's report again from its stored trials, without measuring.

--matters judges the run again by other smallest effects that matter. The report says
so; the run keeps its own.`,
		Example: `  hopbench report hopbench-runs/2026-11-21T09-30-00-routing-appliance
  hopbench report DIR --matters rtt=50us      judge again, where 50 µs matter
  hopbench report DIR --picture result.svg     the costs, to put into a page of your own`,
		Args: base.Exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			st, err := openRun(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			result, err := render(c.Context(), st, over)
			if err != nil {
				return err
			}
			if picture != "" {
				if err := atomicfile.Write(picture, func(w io.Writer) error { return figure.Picture(w, result) }); err != nil {
					return err
				}
			}
			return printResult(s, result, st.Dir(), json, verbose)
		},
	}
	c.Flags().StringVar(&picture, "picture", "", "also draw the costs as an SVG picture into this file")
	c.Flags().BoolVarP(&json, "json", "J", false, "print result.json on standard output and nothing else there")
	verboseFlag(c.Flags(), &verbose)
	c.Flags().Var(&over, mattersFlag, "judge again by these margins: "+mattersUsage)
	if err := c.RegisterFlagCompletionFunc(mattersFlag, completeMatters); err != nil {
		panic(err) // there is no such flag: a mistake above
	}
	return c
}

// render analyses a stored run and writes its report files. It judges by the margins
// of the run, and by those that are given over them.
func render(ctx context.Context, st *store.Store, over matters) (*result.Result, error) {
	r, err := analyse(ctx, st, over)
	if err != nil {
		return nil, err
	}
	report.AddSampled(ctx, r, st)
	type file struct {
		name  string
		write func(io.Writer, *result.Result) error
	}
	files := []file{
		{"report.html", html.Write},
		{"report.md", markdown.Write},
		{resultFile, data.Write},
		{"trials.csv", data.CSV},
	}
	if data.HasPairs(r) {
		files = append(files, file{"pairs.csv", data.PairsCSV})
	}
	for _, file := range files {
		err := atomicfile.Write(filepath.Join(st.Dir(), file.name), func(w io.Writer) error { return file.write(w, r) })
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// printResult prints the summary, or the whole result as JSON.
func printResult(s streams, result *result.Result, dir string, json, verbose bool) error {
	if json {
		return data.Write(s.out, result)
	}
	if err := printReport(s.out, result, verbose); err != nil {
		return err
	}
	tellReport(s, dir)
	return nil
}

// printReport prints the summary, or all that the report tells.
func printReport(w io.Writer, result *result.Result, verbose bool) error {
	o := layout(w)
	o.Verbose = verbose
	return terminal.Write(w, result, o)
}

// verboseFlag adds the flag of commands that print a report.
func verboseFlag(flags *pflag.FlagSet, to *bool) {
	flags.BoolVarP(to, "verbose", "v", false, "print all that the report tells, not what fits one screen")
}

// layout is how a text is laid out for where it goes.
func layout(w io.Writer) terminal.Options {
	return terminal.Options{Width: base.TerminalWidth(w), Colour: base.IsTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

// tellReport says where a run's report is.
func tellReport(s streams, dir string) {
	fmt.Fprintf(s.err, "\nreport: %s\n", filepath.Join(dir, "report.html"))
}

// openRun opens the run in a folder, to read it.
func openRun(dir string) (*store.Store, error) {
	st, err := store.Open(dir)
	if errors.Is(err, store.ErrNoRun) {
		return nil, base.Usage(fmt.Errorf("%w; hopbench results lists the runs here", err))
	}
	return st, err
}
