// Command peers compares this program with its peers across one routing hop on this
// machine, in a lab or between network namespaces made with ip(8): every peer that is on
// PATH, with its defaults and with its fastest flags. Runs of both sides are interleaved in pairs whose
// order alternates, so that both see the same machine; it prints the median of
// the pairs' ratios with its 95 % interval, and compares it with the targets. A
// peer that is missing or fails is named, and the rest goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/lab"
)

type options struct {
	pairs      int
	duration   time.Duration
	bed        string
	congestion []string // one after the other
	only       []string
	peers      []string
	json       string
	markdown   bool
	program    string
	old        string
	placements []string
}

func main() {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == peakCommand {
		fail(runPeak(os.Args[2:]))
		return
	}
	var o options
	var only, peers, placed, congestion string
	flag.IntVar(&o.pairs, "pairs", 10, "interleaved pairs of runs with each peer; fewer than 6 give no interval")
	flag.DurationVar(&o.duration, "duration", time.Second, "measured time of each run; peers take whole seconds")
	flag.StringVar(&o.bed, "bed", "lab", "what lies between the programs: a lab, or as root namespaces made with ip(8)")
	flag.StringVar(&congestion, "congestion", "cubic", "the default congestion control of both ends, several one after the other, separated by commas")
	flag.StringVar(&only, "only", "", "only these tests, separated by commas; a name stands for all that begin with it")
	flag.StringVar(&peers, "peers", "", "only these peers, separated by commas")
	flag.StringVar(&o.json, "json", "", "write every pair to this file")
	flag.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
	flag.StringVar(&o.program, "hopbench", "./hopbench", "the program that is compared")
	flag.StringVar(&o.old, "old", "", "an older version of the program to compare it with, in place of peers")
	flag.StringVar(&placed, "placements", "free,split,one", "where the programs run: free, and of rr and crr split (a CPU for each end) and one (one CPU for both)")
	flag.Parse()
	o.only, o.peers, o.placements, o.congestion = list(only), list(peers), list(placed), list(congestion)
	if flag.NArg() > 0 || o.pairs < 1 || o.duration < 100*time.Millisecond || beds[o.bed] == nil {
		fmt.Fprintln(os.Stderr, "peerbench: wants at least 1 pair, a duration of at least 100ms, the bed lab or namespaces, and no further words")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(run(ctx, o))
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	old := ""
	if o.old != "" {
		if old, err = filepath.Abs(o.old); err != nil {
			return err
		}
	}
	all, err := placements(o.placements)
	if err != nil {
		return err
	}
	tools, missing := findTools(ctx, o.peers)
	record := newRecord(o, tools, missing)
	var shown []test
	var failed error
	for _, congestion := range o.congestion {
		for _, p := range all {
			if failed == nil {
				tests, err := runPlaced(ctx, o, congestion, p, tools, program, old, record)
				shown, failed = append(shown, tests...), err
			}
		}
	}
	// What was measured before an interruption is shown all the same.
	record.print(os.Stdout, shown, o.markdown)
	if o.json != "" {
		failed = errors.Join(failed, record.write(o.json))
	}
	return failed
}

// runPlaced runs the tests in a bed whose programs are all placed in one way. It
// returns those that it wanted to run.
func runPlaced(ctx context.Context, o options, congestion string, placed placement, tools []*tool, program, old string, record *record) (tests []test, err error) {
	if err := placed.needs(); err != nil {
		return nil, err
	}
	b, err := newBench(ctx, o, congestion, placed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.bed.close()) }()
	k := kit{ctx: ctx, seconds: b.wholeSeconds()}
	k.duration = number(k.seconds)
	tests = b.tests(k, tools, program)
	if old != "" {
		tests = b.versions(k, tests, old)
	}
	tests = placed.of(chosen(tests, o.only))
	if len(o.congestion) > 1 {
		for i := range tests {
			tests[i].name, tests[i].title = tests[i].name+"-"+congestion, congestion+": "+tests[i].title
		}
	}
	p := newProgress(os.Stderr, tests, o)
	defer p.clear()
	for _, t := range tests {
		results, err := runTest(ctx, t, o.pairs, p)
		if err != nil {
			return tests, err
		}
		record.Results = append(record.Results, results...)
	}
	return tests, nil
}

// chosen are the tests whose names begin with one of only.
func chosen(tests []test, only []string) []test {
	if len(only) == 0 {
		return tests
	}
	return slices.DeleteFunc(tests, func(t test) bool {
		return !slices.ContainsFunc(only, func(name string) bool { return strings.HasPrefix(t.name, name) })
	})
}
