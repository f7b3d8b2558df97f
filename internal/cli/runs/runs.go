// Package runs is the folders of runs: they are opened, analysed, judged again, and
// reported.
package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
)

const (
	// maxResultBytes bounds a result.json that is read.
	maxResultBytes = 1 << 30
	// ResultFile is the run as one document, in its folder.
	ResultFile = "result.json"
)

// Open opens the run in a folder, to read it.
func Open(dir string) (*store.Store, error) {
	st, err := store.Open(dir)
	if errors.Is(err, store.ErrNoRun) {
		if _, missing := os.Stat(dir); missing != nil {
			err = missing
		}
		return nil, base.Usage(fmt.Errorf("read the run: %w", base.Missing(dir, err, whereRuns(dir))))
	}
	return st, err
}

// whereRuns says where runs are instead of in a folder that is none, such as one of several.
func whereRuns(dir string) string {
	below, _ := os.ReadDir(dir) // as far as it can be read
	for _, entry := range below {
		if _, err := os.Stat(filepath.Join(dir, entry.Name(), store.FileName)); err == nil {
			return fmt.Sprintf("name one of the runs in it, such as %s; hopbench results %s lists them", printable.ShellWord(filepath.Join(dir, entry.Name())), printable.ShellWord(dir))
		}
	}
	return "hopbench results lists the runs here"
}

// Load reads a run from its folder, from the stored trials if they are
// there, or from a result.json.
func Load(ctx context.Context, arg string) (_ *result.Result, err error) {
	path := arg
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		st, err := store.Open(arg)
		if err == nil {
			defer func() { err = errors.Join(err, st.Close()) }()
			return Analyse(ctx, st, nil)
		}
		path = filepath.Join(arg, ResultFile)
		if kept, missing := os.Stat(path); missing != nil || !kept.Mode().IsRegular() || !errors.Is(err, store.ErrNoRun) {
			return nil, base.Usage(fmt.Errorf("%w; %s", err, whereRuns(arg)))
		}
	}
	r, err := Read(path)
	if err != nil {
		return nil, base.Usage(err)
	}
	return r, nil
}

// Read reads a result.json; one of format 1 becomes one of today's.
func Read(path string) (*result.Result, error) {
	text, err := base.ReadBounded(path, maxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("read the run: %w", base.Missing(path, err, ""))
	}
	r, old, err := result.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if old {
		analysis.Upgrade(r)
	}
	return r, nil
}

// Analyse makes the result of a stored run.
func Analyse(ctx context.Context, st *store.Store, over Matters) (*result.Result, error) {
	head, err := st.Head()
	if err != nil {
		return nil, err
	}
	trials, lost, err := st.Readable(ctx)
	if err != nil {
		return nil, err
	}
	var r *result.Result
	if len(over) > 0 {
		if r, err = judgeAgain(head, trials, over); err == nil {
			r.OldFormat = st.Old()
		}
	} else {
		r, err = resultOf(st, head, trials)
	}
	if err == nil && lost > 0 {
		if len(r.Trials)+lost >= r.Planned { // nobody stopped it
			r.Notes = slices.DeleteFunc(r.Notes, func(n result.Note) bool { return n.Code == result.NoteInterim || n.Code == result.NoteCutShort })
		}
		r.Notes = append(r.Notes, result.Note{Code: result.NoteDamaged, Count: lost})
	}
	return r, err
}

// judgeAgain is the result of a run by other margins than it was made with, and says so.
func judgeAgain(head store.Head, trials []measurement.Trial, over Matters) (*result.Result, error) {
	given := map[string]measurement.Margin{}
	maps.Copy(given, head.Matters)
	maps.Copy(given, over)
	head.Matters = given
	r, err := runner.Result(head, trials)
	if err != nil {
		return nil, fmt.Errorf("judge the run again: %w", err)
	}
	for _, m := range measurement.Catalogue() {
		if margin, ok := over[m.Name]; ok {
			r.Notes = append(r.Notes, result.Note{Code: result.NoteRejudged, Metric: m.Name, Margin: &margin})
		}
	}
	return r, nil
}

// resultOf is the result of what is stored of a run. An old one whose experiment
// file is no longer understood is read from the result that was written then.
func resultOf(st *store.Store, head store.Head, trials []measurement.Trial) (*result.Result, error) {
	r, err := runner.Result(head, trials)
	if err != nil && st.Old() {
		if kept, missing := Read(filepath.Join(st.Dir(), ResultFile)); missing == nil {
			return kept, nil
		}
	}
	if err == nil {
		r.OldFormat = st.Old()
	}
	return r, err
}
