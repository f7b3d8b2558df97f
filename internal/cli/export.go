package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/export"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

// exportFormats are what export writes, the first by default. File is its name in the
// run folder.
var exportFormats = []struct {
	name, file string
	write      func(io.Writer, export.Run) error
}{
	{"xlsx", "run.xlsx", export.XLSX},
	{"parquet", "samples.parquet", export.Parquet},
	{"csv", "samples.csv", export.CSV},
}

func exportFormatNames() (names []string) {
	for _, f := range exportFormats {
		names = append(names, f.name)
	}
	return names
}

func exportCommand(s base.Streams) *cobra.Command {
	var format, out string
	var sink sinkFlags
	var trials []string
	var watched live.Flags
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a run as a spreadsheet, or its samples over time as Parquet or CSV",
		Long: `export writes a run for other programs.

xlsx is a spreadsheet: all clients together with charts, the metrics of each trial, the
medians with charts, paths, hops, effects and published figures, and a sheet for each
client. parquet and csv are one long table of all samples, flow by flow.
docs/data-format.md explains the columns.

--to writes the samples of a fleet's agents into a database instead, each only once, however
often you run it.`,
		Example: `  hopbench export hopbench-runs/2026-11-21T09-30-00-firewall-fleet
  hopbench export DIR -o fleet.parquet
  hopbench export DIR --format csv -o - | head
  hopbench export DIR --to postgres --connection-file secret.txt`,
		Args: base.Exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if format == "" {
				format = exportFormats[0].name
				if ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), "."); slices.Contains(exportFormatNames(), ending) {
					format = ending
				} else if out != "" && out != "-" {
					return base.Usage(fmt.Errorf("the name %s does not say what to write; add --format %s", out, strings.Join(exportFormatNames(), ", ")))
				}
			}
			i := slices.Index(exportFormatNames(), format)
			if i < 0 {
				return base.Usage(fmt.Errorf("there is no format %q; write --format %s", format, strings.Join(exportFormatNames(), ", ")))
			}
			if err := live.NotOfRun(out, args[0]); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
			watched.Folder = args[0]
			return watched.Follow(c.Context(), &s, out == "-", "export of "+args[0], func(tell live.Steps) (err error) {
				st, err := runs.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, st.Close()) }()
				run, err := exportOf(c.Context(), st, trials)
				if err != nil {
					return err
				}
				tell.Note("%s to export", quantity.Count(len(run.Result.Trials), "trial"))
				if sink.to != "" {
					return exportTo(c.Context(), s, st, run, sink, tell)
				}
				damaged := map[[2]string]int{}
				run.OnDamaged = func(trial, machine string) { damaged[[2]string{trial, machine}]++ }
				defer func() { tellDamaged(s, tell, damaged) }()
				if out == "-" {
					return exportFormats[i].write(s.Out, run)
				}
				if out == "" {
					out = filepath.Join(st.Dir(), exportFormats[i].file)
				}
				if err := atomicfile.Write(out, func(w io.Writer) error { return exportFormats[i].write(w, run) }); err != nil {
					return err
				}
				tell.Note("%s", out)
				fmt.Fprintf(s.Err, "export: %s\n", out)
				return nil
			})
		},
	}
	c.Flags().StringVar(&format, "format", "", "output format: "+strings.Join(exportFormatNames(), ", ")+"; by default as the extension of -o, or "+exportFormats[0].name)
	c.Flags().StringVarP(&out, "output", "o", "", "write this file instead of one in DIR; - is standard output")
	c.Flags().StringArrayVar(&trials, "trial", nil, "only this trial, by its id in trials.csv (may be repeated)")
	sink.define(c)
	watched.DefineEvents(c.Flags())
	c.MarkFlagsMutuallyExclusive("to", "format")
	c.MarkFlagsMutuallyExclusive("to", "output")
	base.Complete(c, "format", base.OneOf(exportFormatNames()...))
	return c
}

// tellDamaged says which blocks of samples were left out, by trial and machine.
func tellDamaged(s base.Streams, tell live.Steps, damaged map[[2]string]int) {
	for _, of := range slices.SortedFunc(maps.Keys(damaged), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		text := fmt.Sprintf("trial %s: damaged and left out: %s", of[0], words.DamagedBlocks(of[1], damaged[of]))
		tell.Tell(event.Warning, text)
		fmt.Fprintf(s.Err, "export: %s\n", text)
	}
}

// exportOf is a stored run, of which only some trials are exported if any are named.
func exportOf(ctx context.Context, st *store.Store, trials []string) (export.Run, error) {
	r, err := runs.Analyse(ctx, st, nil)
	if err != nil {
		return export.Run{}, err
	}
	for _, id := range trials {
		if !slices.ContainsFunc(r.Trials, func(t measurement.Trial) bool { return t.ID == id }) {
			return export.Run{}, base.Usage(fmt.Errorf("the run has no trial %q; trials.csv in %s names them", id, st.Dir()))
		}
	}
	if len(trials) > 0 {
		r.Trials = slices.DeleteFunc(r.Trials, func(t measurement.Trial) bool { return !slices.Contains(trials, t.ID) })
	}
	return export.Run{
		Result: r, Blocks: func(trial string) iter.Seq2[samples.Block, error] { return st.Samples(ctx, trial) },
		Agents: func(trial string) ([]string, error) { return st.Agents(ctx, trial) },
	}, nil
}

// exportTo puts the samples of a run's trials into a database.
func exportTo(ctx context.Context, s base.Streams, st *store.Store, run export.Run, flags sinkFlags, tell live.Steps) (err error) {
	head, err := st.Head()
	if err != nil {
		return err
	}
	open, err := flags.opener(head)
	if err != nil {
		return err
	}
	sink, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	total, err := export.Into(ctx, sink, run)
	if err != nil {
		return err
	}
	tell.Note("%s in %s", quantity.Count(total, "block"), flags.to)
	fmt.Fprintf(s.Err, "export: %s in %s\n", quantity.Count(total, "block"), flags.to)
	return nil
}
