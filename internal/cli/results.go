package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/watch"
	"github.com/hopbench/hopbench/internal/words"
)

// runSummary is a line of `hopbench results`. Of a run that cannot be read only
// Folder and Error are set.
type runSummary struct {
	Folder     string    `json:"folder"`
	Experiment string    `json:"experiment"`
	Started    time.Time `json:"started,omitzero"`
	Seed       uint64    `json:"seed"`
	Trials     int       `json:"trials"`
	Planned    int       `json:"planned_trials"`
	Complete   bool      `json:"complete"`
	Error      string    `json:"error,omitempty"`
}

func resultsCommand(s base.Streams) *cobra.Command {
	var asJSON bool
	var history, page string
	c := &cobra.Command{
		Use:   "results [FOLDER]",
		Short: "List the runs in a folder (default " + runsFolder + "), or show the history of a watch",
		Args:  base.AtMost("FOLDER"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case history != "" && len(args) > 0:
				return base.Usage(errors.New("--history names a watch; leave the folder of runs out"))
			case history != "":
				return showHistory(c.Context(), s, history, page, asJSON)
			case page != "":
				return base.Usage(errors.New("--html is for --history; hopbench report makes the page of a run"))
			}
			folder := runsFolder
			if len(args) == 1 {
				folder = args[0]
				if err := thereIs(folder); err != nil {
					return err
				}
			}
			working := live.Working(&s, "runs in "+folder)
			runs, err := listRuns(c.Context(), folder)
			working.End()
			if err != nil {
				return err
			}
			if asJSON {
				return base.WriteJSON(s.Out, runs)
			}
			return printRuns(s, folder, runs)
		},
	}
	c.Flags().BoolVarP(&asJSON, "json", "J", false, "print a JSON array; for a watch, its rounds")
	c.Flags().StringVar(&history, "history", "", "show the levels and announcements of this watch: a name in "+watchesFolder+", or a folder")
	c.Flags().StringVar(&page, "html", "", "write the history as a page with plots into this FILE")
	return c
}

// thereIs refuses a folder that was named and is not there, which would be one without runs, or
// is a file.
func thereIs(folder string) error {
	at, err := os.Stat(folder)
	if errors.Is(err, os.ErrNotExist) {
		return base.Usage(fmt.Errorf("list the runs: %w", base.Missing(folder, err, "")))
	}
	if err == nil && !at.IsDir() {
		return base.Usage(fmt.Errorf("list the runs: %s is a file; name a folder", folder))
	}
	return nil
}

// isWatchName says that a text can be the name of a watch: ../x and ./x are folders, and x is
// another watch.
func isWatchName(text string) bool { return filepath.IsLocal(text) && filepath.Clean(text) == text }

// showHistory shows a watch, which may be going on.
func showHistory(ctx context.Context, s base.Streams, name, page string, asJSON bool) (err error) {
	if err := live.NotOfRun(page, ""); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	dir := name
	if _, err := os.Stat(filepath.Join(dir, store.WatchFileName)); err != nil && isWatchName(name) {
		dir = filepath.Join(watchesFolder, name)
	}
	st, head, err := store.OpenWatch(dir)
	if errors.Is(err, store.ErrNoWatch) {
		return base.Usage(fmt.Errorf("%w; begin one with hopbench watch HOST, and name its folder here if it has one of its own (--out)", err))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	defer live.Working(&s, "rounds of "+name).End()
	rounds, missing, err := st.Rounds(ctx)
	if err != nil {
		return err
	}
	announced, unheard, err := st.Announced(ctx)
	if err != nil {
		return err
	}
	h := report.NewHistory(head, rounds, announced)
	if note := words.DamagedWatch(missing.Count, unheard.Count, missing.More || unheard.More); note != "" {
		h.Status += "; " + note
		if asJSON {
			fmt.Fprintln(s.Err, note)
		}
	}
	if page != "" {
		if err := atomicfile.Write(page, func(w io.Writer) error { return html.WriteHistory(w, h) }); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
	}
	switch {
	case asJSON:
		return base.WriteJSON(s.Out, slices.Concat([]watch.Round{}, rounds))
	case page == "":
		return terminal.History(s.Out, h, base.TerminalWidth(s.Out))
	}
	return nil
}

// listRuns lists the runs in a folder, and those in folders of `run all` that lie there. A
// folder that is a run itself is one of them.
func listRuns(ctx context.Context, folder string) ([]runSummary, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return []runSummary{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	dirs := []string{folder}
	for _, entry := range entries {
		dir := filepath.Join(folder, entry.Name())
		dirs = append(dirs, dir)
		if _, err := os.Stat(filepath.Join(dir, indexFile)); err != nil {
			continue
		}
		below, _ := os.ReadDir(dir) // as far as it can be read
		for _, entry := range below {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	runs := []runSummary{}
	for _, dir := range dirs {
		_, err := os.Stat(filepath.Join(dir, store.FileName))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		var run runSummary
		if err == nil {
			run, err = summarise(ctx, dir)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // the others are there all the same
			run = runSummary{Folder: dir, Error: err.Error()}
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func summarise(ctx context.Context, dir string) (run runSummary, err error) {
	st, err := store.Open(dir)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	head, err := st.Head()
	if err != nil {
		return run, err
	}
	n, _, err := st.Count(ctx)
	return runSummary{
		Folder: dir, Experiment: head.Name, Started: head.Started, Seed: head.Seed,
		Trials: n, Planned: head.Planned, Complete: n == head.Planned,
	}, err
}

func printRuns(s base.Streams, folder string, runs []runSummary) error {
	if len(runs) == 0 {
		fmt.Fprintf(s.Err, "no runs in %s; make one with: hopbench run routing-appliance\n", folder)
		return nil
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STARTED\tEXPERIMENT\tTRIALS\tSEED\tFOLDER")
	for _, r := range runs {
		if r.Error != "" {
			fmt.Fprintf(table, "-\t-\t-\t-\t%s\n", base.Shown(r.Error))
			continue
		}
		trials := fmt.Sprintf("%d", r.Trials)
		if !r.Complete {
			trials = fmt.Sprintf("%d of %d", r.Trials, r.Planned)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", r.Started.Local().Format(time.DateTime), base.Shown(r.Experiment), trials, r.Seed, base.Shown(r.Folder))
	}
	return table.Flush()
}
