package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
)

const (
	// everything, in place of an experiment, runs all that are bundled.
	everything = "all"
	// indexFile tells a folder of several runs from that of one.
	indexFile = "index.json"
	// maxIndexBytes bounds an index that is read back.
	maxIndexBytes = 64 << 20
)

// several is `run all` under way.
type several struct {
	s     base.Streams
	flags runFlags
	dir   string
	index *result.Index
}

func newAll(ctx context.Context, s base.Streams, f runFlags) error {
	names := experiments.Names()
	for _, name := range f.only {
		if !slices.Contains(names, name) {
			return base.Usage(unknownExperiment(name))
		}
	}
	if len(f.only) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(f.only, name) })
	}
	now := time.Now().Round(time.Millisecond)
	index := &result.Index{
		Format: result.IndexFormat, Started: now, Ended: now, Seed: f.seed,
		Quick: f.quick, Full: f.full, Blocks: f.blocks, Duration: measurement.SecondsOf(f.duration), Matters: f.matters, Explain: f.explain,
	}
	for _, name := range names {
		index.Entries = append(index.Entries, result.IndexEntry{Name: name, Folder: name, State: result.EntryNotRun})
	}
	dir := cmp.Or(f.out, filepath.Join(runsFolder, now.Format(folderTime)+"-"+everything))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder of the runs: %w; choose another with --out", err)
	}
	lock, err := store.Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); err == nil {
		return fmt.Errorf("%s already holds a run; choose another folder with --out", dir)
	}
	if isIndex(dir) {
		return fmt.Errorf("%s already holds runs; continue them with --resume %s or choose another folder with --out", dir, printable.ShellWord(dir))
	}
	return (&several{s: s, flags: f, dir: dir, index: index}).run(ctx)
}

// isIndex says that a folder holds the runs of `run all`.
func isIndex(dir string) bool { return isFile(filepath.Join(dir, indexFile)) }

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// resumeAll does what an earlier `run all` has not done, failed experiments
// included, and explains what it did if that is wanted now.
func resumeAll(ctx context.Context, s base.Streams, f runFlags) error {
	lock, err := store.Lock(f.resume)
	if err != nil {
		return err
	}
	defer lock.Close()
	index, err := readIndex(f.resume)
	if err != nil {
		return base.Usage(err)
	}
	f.seed, f.quick, f.full = index.Seed, index.Quick, index.Full
	index.Explain = index.Explain || f.explain
	f.explain = index.Explain
	f.blocks, f.duration, f.matters = index.Blocks, index.Duration.Duration(), index.Matters
	return (&several{s: s, flags: f, dir: f.resume, index: index}).run(ctx)
}

func readIndex(dir string) (*result.Index, error) {
	path := filepath.Join(dir, indexFile)
	text, err := base.ReadBounded(path, maxIndexBytes)
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	var index result.Index
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if index.Format != result.IndexFormat {
		return nil, fmt.Errorf("%s is of format %q, not %s", path, index.Format, result.IndexFormat)
	}
	for _, e := range index.Entries {
		if e.Name == "" || e.Folder != filepath.Base(e.Folder) || e.Folder == ".." || e.Folder == "." {
			return nil, fmt.Errorf("%s names the folder %q, which is not below it", path, e.Folder)
		}
	}
	return &index, nil
}

// run does what is left of the index and writes its pages after each step, so
// that also a killed program leaves them.
func (a *several) run(ctx context.Context) error {
	if err := a.write(); err != nil {
		return err
	}
	for i := range a.index.Entries {
		e := &a.index.Entries[i]
		if e.State == result.EntryDone && !a.unexplained(e) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if !a.flags.quiet {
			fmt.Fprintf(a.s.Err, "\n[%d/%d] %s\n", i+1, len(a.index.Entries), base.Shown(e.Name))
		}
		start := time.Now()
		err := a.one(ctx, e)
		e.Elapsed += measurement.SecondsOf(time.Since(start))
		a.settle(ctx, e, err)
		a.index.Ended = time.Now().Round(time.Millisecond)
		if err := a.write(); err != nil {
			return errors.Join(a.finish(ctx), err)
		}
		if errors.Is(err, runner.ErrFault) {
			break
		}
	}
	return a.finish(ctx)
}

// unexplained says that a run that is done is still to be explained.
func (a *several) unexplained(e *result.IndexEntry) bool {
	if !a.flags.explain {
		return false
	}
	st, err := store.Open(filepath.Join(a.dir, e.Folder))
	if err != nil {
		return false // whoever removed a run that was done does not want it again
	}
	defer st.Close() // only read
	head, err := st.Head()
	return err == nil && !head.Explain && !st.Old()
}

// settle says in the entry how its run ended.
func (a *several) settle(ctx context.Context, e *result.IndexEntry, err error) {
	switch {
	case err == nil:
		e.State, e.Reason = result.EntryDone, ""
		return
	case ctx.Err() != nil:
		e.State = result.EntryStopped
	default:
		e.State = result.EntryFailed
	}
	e.Reason = err.Error()
	if !a.flags.quiet {
		fmt.Fprintf(a.s.Err, "%s: %s: %s\n", base.Shown(e.Name), e.State, base.Shown(err.Error()))
	}
}

// one does one experiment, or the rest of it, and summarises what there is.
func (a *several) one(ctx context.Context, e *result.IndexEntry) (err error) {
	dir := filepath.Join(a.dir, e.Folder)
	r, err := reopen(ctx, a.s, a.flags, dir)
	if errors.Is(err, store.ErrNoRun) {
		if r, err = prepareRun(a.s, a.flags, e.Name); err != nil {
			return err
		}
		e.Title = r.e.Title
		r.store, err = store.Create(dir, r.head)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	result, err := r.measure(ctx)
	if result != nil {
		report.Summarise(e, result)
	}
	return err
}

// write writes the index and its pages.
func (a *several) write() error {
	for _, file := range []struct {
		name  string
		write func(io.Writer, *result.Index) error
	}{
		{indexFile, data.WriteIndex},
		{"index.html", html.WriteIndex},
		{"index.md", markdown.WriteIndex},
	} {
		if err := atomicfile.Write(filepath.Join(a.dir, file.name), func(w io.Writer) error { return file.write(w, a.index) }); err != nil {
			return err
		}
	}
	return nil
}

// finish prints the index and says what is missing of it.
func (a *several) finish(ctx context.Context) error {
	var err error
	if a.flags.json {
		err = data.WriteIndex(a.s.Out, a.index)
	} else {
		err = terminal.WriteIndex(a.s.Out, a.index, runs.Layout(a.s.Out))
		if page := filepath.Join(a.dir, "index.html"); isFile(page) {
			fmt.Fprintf(a.s.Err, "\nindex: %s\n", page)
		}
	}
	done, all := a.index.Count(result.EntryDone), len(a.index.Entries)
	if done == all {
		return err
	}
	missing := fmt.Errorf("%d of %d experiments done", done, all)
	if ctx.Err() != nil {
		missing = fmt.Errorf("stopped with %d of %d experiments done", done, all)
	}
	if isIndex(a.dir) { // and not removed meanwhile
		missing = fmt.Errorf("%w; continue with: hopbench run --resume %s", missing, printable.ShellWord(a.dir))
	}
	return errors.Join(missing, err)
}
