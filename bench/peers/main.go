// Command peers compares this module's tests with their peers across one
// routing hop on this machine: every peer that is on PATH, with its defaults and
// with its fastest flags. Runs of both sides are interleaved in pairs whose
// order alternates, so that both see the same machine; it prints the median of
// the pairs' ratios with its 95 % interval, and compares it with the targets. A
// peer that is missing or fails is named, and the rest goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/lab"
)

type options struct {
	pairs      int
	duration   time.Duration
	congestion string
	only       []string
	peers      []string
	json       string
	markdown   bool
	program    string
	old        string
}

func main() {
	if code, handled := lab.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		fail(serveAgent())
		return
	}
	if len(os.Args) > 1 && os.Args[1] == peakCommand {
		fail(runPeak(os.Args[2:]))
		return
	}
	var o options
	var only, peers string
	flag.IntVar(&o.pairs, "pairs", 10, "interleaved pairs of runs with each peer; fewer than 6 give no interval")
	flag.DurationVar(&o.duration, "duration", time.Second, "measured time of each run; peers take whole seconds")
	flag.StringVar(&o.congestion, "congestion", "cubic", "congestion control of all")
	flag.StringVar(&only, "only", "", "only these tests, separated by commas; a name stands for all that begin with it")
	flag.StringVar(&peers, "peers", "", "only these peers, separated by commas")
	flag.StringVar(&o.json, "json", "", "write every pair to this file")
	flag.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
	flag.StringVar(&o.program, "hopbench", "./hopbench", "the program whose memory is compared, or all with --old")
	flag.StringVar(&o.old, "old", "", "an older version of the program to hold it against, in place of peers")
	flag.Parse()
	o.only, o.peers = list(only), list(peers)
	if flag.NArg() > 0 || o.pairs < 1 || o.duration < 100*time.Millisecond {
		fmt.Fprintln(os.Stderr, "peerbench: wants at least 1 pair, a duration of at least 100ms, and no further words")
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

// serveAgent is the process in a node of the lab.
func serveAgent() error {
	file := os.NewFile(3, "control")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("take the control connection: %w", err)
	}
	return errors.Join(file.Close(), agent.Serve(context.Background(), conn, agent.Options{}))
}

func run(ctx context.Context, o options) error {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	tools, missing := findTools(ctx, o.peers)
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	k := kit{ctx: ctx, seconds: b.wholeSeconds(), congestion: o.congestion}
	k.duration = number(k.seconds)
	all := b.tests(k, tools, program)
	if o.old != "" {
		old, err := filepath.Abs(o.old)
		if err != nil {
			return errors.Join(err, b.close())
		}
		all = b.versions(k, all, program, old)
	}
	tests := chosen(all, o.only)
	record := newRecord(o, tools, missing)
	p := newProgress(os.Stderr, tests, o)
	var failed error
	for _, t := range tests {
		var results []result
		if results, failed = runTest(ctx, t, o.pairs, p); failed != nil {
			break
		}
		record.Results = append(record.Results, results...)
	}
	p.clear()
	// What was measured before an interruption is shown all the same.
	record.print(os.Stdout, tests, o.markdown)
	if o.json != "" {
		failed = errors.Join(failed, record.write(o.json))
	}
	return errors.Join(failed, b.close())
}

// chosen are the tests whose names begin with one of only.
func chosen(tests []test, only []string) []test {
	if len(only) == 0 {
		return tests
	}
	var out []test
	for _, t := range tests {
		for _, name := range only {
			if strings.HasPrefix(t.name, name) {
				out = append(out, t)
				break
			}
		}
	}
	return out
}
