package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/atomicfile"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
)

// ErrUnwritten says that files of a report could not be written.
var ErrUnwritten = errors.New("the report could not be written")

// Report analyses a stored run and writes its report files. It judges by the margins
// of the run, and by those that are given over them. Step, which may be nil, hears of each
// step that is done. With ErrUnwritten the result is valid.
func Report(ctx context.Context, st *store.Store, over Matters, step func(string)) (*result.Result, error) {
	if step == nil {
		step = func(string) {}
	}
	r, err := Analyse(ctx, st, over)
	if err != nil {
		return nil, err
	}
	step(quantity.Count(len(r.Trials), "trial") + " analysed")
	report.AddSampled(ctx, r, st)
	type file struct {
		name  string
		write func(io.Writer, *result.Result) error
	}
	files := []file{
		{"report.html", html.Write},
		{"report.md", markdown.Write},
		{ResultFile, data.Write},
		{"trials.csv", data.CSV},
	}
	if data.HasPairs(r) {
		files = append(files, file{"pairs.csv", data.PairsCSV})
	}
	for _, file := range files {
		path := filepath.Join(st.Dir(), file.name)
		if err := atomicfile.Write(path, func(w io.Writer) error { return file.write(w, r) }); err != nil {
			if !st.InPlace() {
				return r, fmt.Errorf("%w: %w", ErrUnwritten, err)
			}
			return r, fmt.Errorf("%w (hopbench report %s writes it later): %w", ErrUnwritten, printable.ShellWord(st.Dir()), err)
		}
		step(path)
	}
	return r, nil
}

// PrintResult prints the summary, or the whole result as JSON, of a run that ended with err,
// nil if it ended well, and returns that and what goes wrong now.
func PrintResult(s base.Streams, result *result.Result, err error, dir string, json, verbose bool) error {
	if json {
		return errors.Join(err, data.Write(s.Out, result))
	}
	if bad := Print(s.Out, result, verbose, true); bad != nil {
		return errors.Join(err, bad)
	}
	TellReport(s, dir, err)
	return err
}

// Print prints the summary, or all that the report tells, which there is of a run that is kept.
func Print(w io.Writer, result *result.Result, verbose, kept bool) error {
	o := Layout(w)
	o.Verbose, o.Unkept = verbose, !kept
	return terminal.Write(w, result, o)
}

// VerboseFlag adds the flag of commands that print a report.
func VerboseFlag(flags *pflag.FlagSet, to *bool) {
	flags.BoolVarP(to, "verbose", "v", false, "print everything in the report, not only one screen")
}

// Layout is how a text is laid out for where it goes.
func Layout(w io.Writer) terminal.Options {
	return terminal.Options{Width: base.TerminalWidth(w), Colour: base.TakesEscapes(w) && os.Getenv("NO_COLOR") == ""}
}

// TellReport says where a run's report is, unless err says that it could not be written.
func TellReport(s base.Streams, dir string, err error) {
	if !errors.Is(err, ErrUnwritten) {
		fmt.Fprintf(s.Err, "\nreport: %s\n", filepath.Join(dir, "report.html"))
	}
}
