// Command truth measures whether hopbench's verdicts, causes and gates are right:
// it plants what is known into labs on this machine, measures real traffic, and
// counts. docs/accuracy.md keeps its tables. Raw trials stay in a folder; a run
// that was stopped goes on where it was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/bench/internal/program"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

func main() {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	program.Main("truth", run)
}

// options are the command line.
type options struct {
	parts  []part
	out    string
	update string
	seed   uint64
	short  bool
	commit string // what was checked out when the program began
	limit  time.Duration
	only   *regexp.Regexp // names of designs of the part gates
}

// pick is how much a short or a whole run does of something.
func (o options) pick(short, whole int) int {
	if o.short {
		return short
	}
	return whole
}

// part is one of the things that are measured.
type part = program.Part[func(context.Context, options, *campaign) (report, error)]

func parts() []part {
	return []part{
		{Name: "aa", Measure: aa},
		{Name: "never", Measure: never},
		{Name: "planted", Measure: intervals},
		{Name: "causes", Measure: causes},
		{Name: "gates", Measure: gates},
		{Name: "instruments", Measure: instruments},
		{Name: "clock", Measure: clockSteps},
	}
}

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("truth", flag.ContinueOnError)
	chosen := program.Parts(flags, parts())
	flags.StringVar(&o.out, "out", "hopbench-runs/truth", "folder of the raw trials; what is there is not measured again")
	flags.StringVar(&o.update, "update", "", "write the tables into this file, docs/accuracy.md")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of every order and fault")
	flags.BoolVar(&o.short, "short", false, "fewer runs of everything: about 10 minutes instead of an hour")
	flags.DurationVar(&o.limit, "limit", 15*time.Minute, "longest time of one part, which then reports the runs that are complete")
	only := flags.String("only", "", "of the part gates, measure and show only designs whose names match this")
	version := flags.String("commit", "", "hash of the version that measures (default what is checked out here)")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	o.commit = "commit " + *version
	if *version == "" {
		o.commit = commit()
	}
	o.parts = *chosen
	if *only != "" && o.update != "" {
		return o, errors.New("-only would leave rows out of the table; measure with it, then write the table without")
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	for _, p := range o.parts {
		if err := o.measure(ctx, p); err != nil {
			return fmt.Errorf("part %s: %w", p.Name, err)
		}
	}
	return nil
}

// measure measures a part and prints what it found, also of a part whose time was
// over.
func (o options) measure(ctx context.Context, p part) error {
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	dir := filepath.Join(o.out, p.Name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the folder of the raw trials: %w", err)
	}
	c := &campaign{dir: dir, seed: o.seed, log: os.Stderr, redraw: redraw(os.Stderr), commit: o.commit, versions: map[string]bool{}}
	found, err := p.Measure(limited, o, c)
	if c.redraw != "" {
		fmt.Fprintln(os.Stderr)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		found.text = append(found.text, fmt.Sprintf("The part's time of %v was over before all was measured.", o.limit))
		err = nil
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	found.write(&text)
	if c.trials > 0 { // else they were done elsewhere, which says so itself
		fmt.Fprintf(&text, "%s\n", o.provenance(p, c))
	}
	fmt.Printf("%s\n\n%s", p.Name, text.String())
	if o.update != "" {
		return update(o.update, p.Name, text.String())
	}
	return nil
}

// provenance says where and how a table came about.
func (o options) provenance(p part, c *campaign) string {
	machine := hostinfo.Machine()
	again := fmt.Sprintf("go run ./bench/truth -part %s -seed %d", p.Name, o.seed)
	if o.short {
		again += " -short"
	}
	return fmt.Sprintf("%s: %d trials, measured in %v by %s, analysed by %s, on %s CPUs (%s), Linux %s, seed %d: `%s`.",
		time.Now().UTC().Format("2006-01-02"), c.trials, c.took.Duration().Round(time.Second),
		strings.Join(slices.Sorted(maps.Keys(c.versions)), " and "), o.commit, machine["cpus"], machine["cpu_model"], machine["kernel"], o.seed, again)
}

// commit names the version that is checked out here.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "an unknown version"
	}
	return "commit " + strings.TrimSpace(string(out))
}

// redraw is what begins a line of a file anew, empty where that is no terminal.
func redraw(f *os.File) string {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return ""
	}
	return "\r\x1b[K"
}
