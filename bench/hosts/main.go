// Command hosts measures whether an experiment says the same on hosts as in a lab. The
// namespaces of a lab are measured by its own agents and, by `hopbench run --testbed`,
// as hosts.
//
//   - aa: by the lab, over TLS, and over ssh (a real sshd, which takes root), in blocks of
//     one trial of each test by each, in random order. No way should cost anything.
//   - switched: two of the bundled experiments, whose paths commands switch and proofs
//     prove on hosts. The verdicts should be those of the lab.
//   - starts: how far apart agents start that are told to start at one moment, each a
//     process with a clock of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/bench/internal/program"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

func main() {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == deviceRole {
		os.Exit(askDevice(os.Args[2:]))
	}
	program.Main("hosts", run)
}

// options are the command line.
type options struct {
	parts    []part
	blocks   int // 0: the part's own number
	only     string
	starts   int
	agents   int
	seed     uint64
	hopbench string
	out      string
}

// part is one of the things that are measured.
type part = program.Part[func(context.Context, options) error]

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("hosts", flag.ContinueOnError)
	chosen := program.Parts(flags, []part{{Name: "aa", Measure: aa}, {Name: "switched", Measure: switched}, {Name: "starts", Measure: starts}})
	flags.IntVar(&o.blocks, "blocks", 0, "number of blocks (default: 20 of aa, those of each experiment of switched)")
	flags.StringVar(&o.only, "only", "", "of aa and switched this test or experiment alone")
	flags.IntVar(&o.starts, "starts", 50, "starts: how many")
	flags.IntVar(&o.agents, "agents", 30, "starts: of how many agents")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<53), "seed of every order")
	flags.StringVar(&o.hopbench, "hopbench", "./hopbench", "the program that runs on the hosts")
	flags.StringVar(&o.out, "out", "", "keep the trials in this folder, with result.json")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if o.blocks < 0 || o.starts < 1 || o.agents < 2 {
		return o, errors.New("-blocks must not be negative, -starts at least 1, -agents at least 2")
	}
	known := aaKinds()
	for _, s := range studies {
		known = append(known, s.experiment)
	}
	if o.only != "" && !slices.Contains(known, o.only) {
		return o, fmt.Errorf("-only %s: it is one of %s", o.only, strings.Join(known, ", "))
	}
	o.parts = *chosen
	o.hopbench, err = filepath.Abs(o.hopbench)
	return o, err
}

func run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	for _, p := range o.parts {
		fmt.Fprintf(os.Stderr, "part %s, seed %d\n", p.Name, o.seed)
		if err := p.Measure(ctx, o); err != nil {
			return fmt.Errorf("part %s: %w", p.Name, err)
		}
	}
	return nil
}
