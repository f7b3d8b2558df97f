package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/ui"
)

func uiCommand(s base.Streams) *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "ui [FOLDER…]",
		Short: "Show past runs in a browser, and compare two",
		Long: `ui serves web pages of the runs in each FOLDER (default ` + runsFolder + `): their reports, rebuilt
from the stored trials, and comparisons of two. It prints the address and
serves until Ctrl-C. It listens on loopback unless you give --address. The address
contains a random token, without which nobody can read the pages.

hopbench run --ui shows a run live.`,
		Example: `  hopbench ui
  hopbench ui before/ after/`,
		RunE: func(c *cobra.Command, args []string) error {
			for _, folder := range args {
				if err := thereIs(folder); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				args = []string{runsFolder}
			}
			page, err := ui.Listen(c.Context(), ui.Options{Address: address, Library: folders(args)})
			if err != nil {
				return base.Usage(fmt.Errorf("--address: %w", err))
			}
			live.TellPage(&s, page)
			<-c.Context().Done()
			return page.Close()
		},
	}
	c.Flags().StringVar(&address, "address", live.AnyPort, "ADDRESS:PORT of the pages; port 0 is any free port")
	return c
}

// folders are the library of the runs in them.
type folders []string

// Runs lists all, the newest first.
func (f folders) Runs(ctx context.Context) ([]ui.Run, error) {
	var out []ui.Run
	for _, folder := range f {
		runs, err := listRuns(ctx, folder)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			out = append(out, ui.Run{ID: runID(r.Folder), Folder: r.Folder, Experiment: r.Experiment, Started: r.Started, Trials: r.Trials, Planned: r.Planned, Error: r.Error})
		}
	}
	slices.SortStableFunc(out, func(a, b ui.Run) int { return b.Started.Compare(a.Started) })
	return out, nil
}

// runID tells a run from others without saying where it is: a page asks for what is
// listed, and for no folder of its choice.
func runID(folder string) string {
	digest := sha256.Sum256([]byte(filepath.Clean(folder)))
	return hex.EncodeToString(digest[:8])
}

// folder is where a run is.
func (f folders) folder(ctx context.Context, id string) (string, error) {
	runs, err := f.Runs(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(runs, func(r ui.Run) bool { return r.ID == id })
	if i < 0 {
		return "", ui.ErrNoRun
	}
	return runs[i].Folder, nil
}

// Result analyses a run.
func (f folders) Result(ctx context.Context, id string) (_ *result.Result, err error) {
	folder, err := f.folder(ctx, id)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	r, err := runs.Analyse(ctx, st, nil)
	if err != nil {
		return nil, err
	}
	report.AddSampled(ctx, r, st)
	return r, nil
}

// Comparison compares a run with another.
func (f folders) Comparison(ctx context.Context, reference, id string) (*result.Comparison, error) {
	var both []string
	for _, one := range []string{reference, id} {
		folder, err := f.folder(ctx, one)
		if err != nil {
			return nil, err
		}
		both = append(both, folder)
	}
	return compareFlags{}.comparison(ctx, both, live.Steps{})
}
