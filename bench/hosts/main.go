// Command hosts measures whether an experiment says the same on hosts as in a lab: the
// same namespaces are measured by the agents of a lab, by an agent that is reached over
// TLS, and by one that ssh starts, in blocks of one trial of each test by each, in random
// order. No way of measuring should cost anything.
//
// There is no sshd that runs in the user namespace of a lab, which has a single user. So a
// stand-in for ssh enters the node instead: what is copied, started and removed there, and
// what goes over standard input and output, is the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
)

// The ways to measure; the first is the baseline.
const (
	byLab = "lab"
	byTLS = "tls"
	bySSH = "ssh"
)

var ways = []string{byLab, byTLS, bySSH}

// links are two alike, since an experiment has two paths at least: a round over both is
// two blocks.
var links = []string{"first", "second"}

// head of an experiment; its paths and tests follow.
const experimentHead = `format: hopbench.experiment/1
name: hosts-aa
title: The same namespaces, measured in a lab and on hosts
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: %s
blocks: %d
matters: {goodput: 5%%, connections: 5%%, rtt_p50: 2us}
paths:
`

const tests = `tests:
  - {name: tcp, kind: tcp, duration: 1s, max_warmup: 300ms}
  - {name: rr, kind: rr, duration: 1s, max_warmup: 100ms}
  - {name: crr, kind: crr, duration: 1s, max_warmup: 100ms}
`

func text(blocks int, paths ...string) string {
	out := fmt.Sprintf(experimentHead, paths[0], blocks)
	for _, p := range paths {
		out += fmt.Sprintf("  - {name: %s, hops: [{type: link}]}\n", p)
	}
	return out + tests
}

func main() {
	if code, handled := labtest.Role(os.Args); handled {
		os.Exit(code)
	}
	blocks := flag.Int("blocks", 20, "number of blocks")
	seed := flag.Uint64("seed", rand.Uint64N(1<<53), "seed of the order in each block")
	binary := flag.String("hopbench", "./hopbench", "the program that runs on the hosts")
	out := flag.String("out", "", "keep the trials in this folder, with result.json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *blocks, *seed, *binary, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		os.Exit(1)
	}
}

// bench is the lab and what runs in it.
type bench struct {
	lab    *testbedlab.Lab
	node   map[string]string // of an endpoint
	folder string
	binary string
	number int // of runs on hosts
}

func run(ctx context.Context, blocks int, seed uint64, binary, out string) (err error) {
	b := &bench{}
	if b.binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "hopbench-bench-hosts-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	e, err := experiment.Load("way.yaml", []byte(text(1, links...)))
	if err != nil {
		return err
	}
	if b.lab, err = testbedlab.New(ctx, e); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.lab.Close()) }()
	if err := b.prepare(); err != nil {
		return err
	}
	background, end := context.WithCancel(ctx)
	ended := make(chan struct{}, 2)
	for _, c := range [][]string{
		{b.binary, "agent", "-q", "--listen", b.lab.Laid()[0].Destination.String(), "--token-file", "token"},
		{"sh", "-c", "echo $$ > far.pid; exec sleep infinity"},
	} {
		go func() {
			_, _ = b.exec(background, "b", nil, c...) // what it is ended with is of no interest
			ended <- struct{}{}
		}()
	}
	defer func() { end(); <-ended; <-ended }()
	if err := b.await(ctx); err != nil {
		return err
	}
	head := store.Head{
		Name: "hosts-aa", Experiment: text(blocks, ways...), File: "hosts-aa.yaml", Argument: "hosts-aa", Seed: seed,
		Planned: blocks * len(ways) * len(e.Tests), Started: time.Now(), Testbed: b.lab.Info(), Environment: map[string]string{},
	}
	trials, runErr := b.blocks(ctx, blocks, seed)
	r, err := runner.Result(head, trials)
	if err != nil {
		return errors.Join(runErr, err)
	}
	if out != "" {
		runErr = errors.Join(runErr, keep(out, head, trials))
	}
	return errors.Join(runErr, terminal.Write(os.Stdout, r, terminal.Options{}))
}

// keep keeps the trials as a run does.
func keep(folder string, head store.Head, trials []measurement.Trial) error {
	s, err := store.Create(folder, head)
	if err != nil {
		return err
	}
	for _, t := range trials {
		err = errors.Join(err, s.Put(context.Background(), t))
	}
	return errors.Join(err, s.Close())
}

// prepare writes the files that runs on hosts need.
func (b *bench) prepare() error {
	b.node = map[string]string{"a": b.lab.Laid()[0].SourceNode, "b": b.lab.Laid()[0].DestinationNode}
	first, second := b.lab.Laid()[0].Destination, b.lab.Laid()[1].Destination
	// The lab's own agent has the usual port.
	const port = measurement.DefaultPort + 100
	bed := "format: hopbench.testbed/1\nname: bench\nkind: hosts\n%[5]sendpoints:\n  a: {reach: local}\n  b: {reach: \"%[1]s://%[2]s\"}\npaths:\n  first: {to: \"%[2]s:%[3]d\"}\n  second: {to: \"%[4]s:%[3]d\"}\n"
	files := map[string]string{
		"way.yaml": text(1, links...), "token": fmt.Sprintf("%x%x", rand.Uint64(), rand.Uint64()),
		byTLS + ".yaml": fmt.Sprintf(bed, byTLS, first, port, second, "token_file: token\n"), bySSH + ".yaml": fmt.Sprintf(bed, bySSH, first, port, second, ""),
		"ssh": "#!/bin/sh\n# Runs its last argument where the destination is.\nfor command; do :; done\nexec nsenter -t \"$(cat " + filepath.Join(b.folder, "far.pid") + ")\" -n sh -c \"$command\"\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.folder, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	// Before the system's ssh.
	return os.Setenv("PATH", b.folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// startTime is how long the far ends may take to start.
const startTime = 30 * time.Second

// await waits until both far ends can be reached.
func (b *bench) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, way := range []string{byTLS, bySSH} {
		for {
			status, err := b.exec(ctx, "a", nil, b.binary, "testbed", "check", way+".yaml", "-e", "./way.yaml")
			if err == nil && status == 0 {
				break
			}
			select {
			case <-time.After(startTime / 100):
			case <-ctx.Done():
				return fmt.Errorf("nothing can be reached by %s within %v: exit status %d, %w", way, startTime, status, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// exec runs a program at an endpoint.
func (b *bench) exec(ctx context.Context, endpoint string, stderr *os.File, argv ...string) (int, error) {
	return b.lab.Exec(ctx, b.node[endpoint], lab.Command{
		Argv: argv, Dir: b.folder, Stderr: stderr,
	})
}

// blocks measures all blocks, and what there is when it is stopped.
func (b *bench) blocks(ctx context.Context, blocks int, seed uint64) (all []measurement.Trial, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range (blocks + 1) / len(links) {
		order := slices.Clone(ways)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, way := range order {
			trials, err := b.measure(ctx, way, random.Uint64N(1<<53))
			if err != nil {
				return all, err
			}
			for _, t := range trials {
				t.Block = round*len(links) + 1 + slices.Index(links, t.Path)
				t.Path, t.Order = way, len(all)+1
				t.ID = fmt.Sprintf("b%02d-%s-%s", t.Block, way, t.Test)
				all = append(all, t)
			}
		}
		fmt.Fprintf(os.Stderr, "block %d of %d\n", (round+1)*len(links), blocks)
	}
	return all, nil
}

// measure does one trial of each test.
func (b *bench) measure(ctx context.Context, way string, seed uint64) ([]measurement.Trial, error) {
	if way == byLab {
		e, err := experiment.Load("way.yaml", []byte(text(1, links...)))
		if err != nil {
			return nil, err
		}
		keeper := &runner.Memory{}
		err = runner.Run(ctx, runner.Options{Planner: runner.Fixed(e.Plan(seed)), Testbed: open{b.lab}, Keeper: keeper})
		return keeper.Kept, err
	}
	b.number++
	folder := filepath.Join(b.folder, fmt.Sprint("run-", b.number))
	said, err := os.CreateTemp(b.folder, "said-")
	if err != nil {
		return nil, err
	}
	defer said.Close()
	status, err := b.exec(ctx, "a", said, b.binary, "run", "./way.yaml", "--testbed", way+".yaml", "--seed", fmt.Sprint(seed), "-q", "-o", folder)
	if err == nil && status != 0 {
		_, _ = said.Seek(0, io.SeekStart)
		text, _ := io.ReadAll(said)
		err = fmt.Errorf("by %s: exit status %d: %s", way, status, text)
	}
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(folder, "result.json"))
	if err != nil {
		return nil, err
	}
	r, _, err := result.Decode(document)
	if err != nil {
		return nil, err
	}
	return r.Trials, os.RemoveAll(folder)
}

// open is a lab that stays open when a run ends.
type open struct{ *testbedlab.Lab }

// Close leaves the testbed to the other runs.
func (open) Close() error { return nil }
