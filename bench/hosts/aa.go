package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/store"
)

// The ways to measure; the first is the baseline.
const (
	byLab = "lab"
	byTLS = "tls"
	bySSH = "ssh"
)

// links are two alike, since an experiment has two paths at least: a round over both is
// two blocks.
var links = []string{"first", "second"}

// aaHead is that of an experiment; its paths and tests follow.
const aaHead = `format: hopbench.experiment/1
name: hosts-aa
title: The same namespaces, measured in a lab and on hosts
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: %s
blocks: %d
paths:
`

// aaTests are called as their kinds, and short, since machines change within the seconds that a
// round takes.
var aaTests = []struct{ kind, matters, options string }{
	{"tcp", "goodput: 5%", "duration: 500ms, max_warmup: 300ms"},
	{"rr", "rtt_p50: 2.5us", "duration: 500ms, max_warmup: 100ms"},
	{"crr", "connections: 5%", "duration: 500ms, max_warmup: 100ms"},
}

func aaKinds() (all []string) {
	for _, t := range aaTests {
		all = append(all, t.kind)
	}
	return all
}

// aaText is an experiment with all tests, or only that of a kind.
func aaText(only string, blocks int, paths ...string) string {
	out := fmt.Sprintf(aaHead, paths[0], blocks)
	for _, p := range paths {
		out += fmt.Sprintf("  - {name: %s, hops: [{type: link}]}\n", p)
	}
	tests, matters := "tests:\n", "matters:\n"
	for _, t := range aaTests {
		if only == "" || only == t.kind {
			tests += fmt.Sprintf("  - {name: %[1]s, kind: %[1]s, %[2]s}\n", t.kind, t.options)
			matters += "  " + t.matters + "\n"
		}
	}
	return out + tests + matters
}

// aaTestbed is the testbed file of a way.
func (n *network) aaTestbed(way, more string) string {
	first, second := n.lab.Laid()[0].Destination, n.lab.Laid()[1].Destination
	return fmt.Sprintf("format: hopbench.testbed/1\nname: bench\nkind: hosts\n%[5]sendpoints:\n  a: {reach: local}\n  b: {reach: \"%[1]s://%[2]s\"}\npaths:\n  first: {to: \"%[3]s:%[6]d\"}\n  second: {to: \"%[4]s:%[6]d\"}\n",
		way, n.reached(), first, second, more, testsPort)
}

const aaFile = "way.yaml"

// aa measures the same paths by every way.
func aa(ctx context.Context, o options) (err error) {
	if o.only != "" && !slices.Contains(aaKinds(), o.only) {
		return nil
	}
	rounds := (cmp.Or(o.blocks, 20) + len(links) - 1) / len(links)
	blocks := rounds * len(links)
	text := aaText(o.only, 1, links...)
	n, err := newNetwork(ctx, aaFile, text, o.hopbench)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	ways := []string{byLab, byTLS}
	files := map[string]string{aaFile: text, byTLS + ".yaml": n.aaTestbed(byTLS, "token_file: "+tokenFile+"\n")}
	switch missing := n.startSSHD(); {
	case missing == nil:
		ways = append(ways, bySSH)
		files[bySSH+".yaml"] = n.aaTestbed(bySSH, "")
	case errors.Is(missing, errNoSSHD):
		fmt.Fprintf(os.Stderr, "not measured over ssh: %v\n", missing)
	default:
		return missing
	}
	for name, text := range files {
		if err := n.write(name, text); err != nil {
			return err
		}
	}
	for _, way := range ways[1:] {
		if err := n.await(ctx, way+".yaml"); err != nil {
			return err
		}
	}
	head := store.Head{
		Name: "hosts-aa", Experiment: aaText(o.only, blocks, ways...), File: "hosts-aa.yaml", Argument: "hosts-aa", Seed: o.seed,
		Planned: blocks * len(ways) * len(n.experiment.Tests), Started: time.Now(), Testbed: n.lab.Info(), Environment: map[string]string{},
	}
	trials, runErr := n.aaRounds(ctx, text, ways, rounds, o.seed)
	r, err := keep(o.out, head, trials)
	if err != nil {
		return errors.Join(runErr, err)
	}
	return errors.Join(runErr, terminal.Write(os.Stdout, r, terminal.Options{}))
}

// aaRounds measures all rounds, and what there is when it is stopped.
func (n *network) aaRounds(ctx context.Context, text string, ways []string, rounds int, seed uint64) (all []measurement.Trial, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range rounds {
		order := slices.Clone(ways)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, way := range order {
			trials, err := n.aaRound(ctx, text, way, random.Uint64N(1<<53))
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
		fmt.Fprintf(os.Stderr, "block %d of %d\n", (round+1)*len(links), rounds*len(links))
	}
	return all, nil
}

// aaRound does one trial of each test on each link.
func (n *network) aaRound(ctx context.Context, text, way string, seed uint64) ([]measurement.Trial, error) {
	if way == byLab {
		return n.inLab(ctx, store.Head{Experiment: text, File: aaFile, Seed: seed})
	}
	r, err := n.onHosts(ctx, "./"+aaFile, way+".yaml", seed)
	if err != nil {
		return nil, err
	}
	return r.Trials, nil
}
