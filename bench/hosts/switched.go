package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

// study is a bundled experiment whose paths are switched in place.
type study struct {
	experiment string
	switches   []deviceSwitch
}

// studies are those that are measured. An inspection shows in no trace, so its proof is a
// request that it catches; a gateway does.
var studies = []study{
	{"firewall-idps", []deviceSwitch{
		{"idps", "proof: canary\n    canary: {off: passed, deny: reset}", []deviceValue{{"off", "idps-off"}, {"deny", "idps-deny"}}},
	}},
	{"fastpath", []deviceSwitch{
		{"fast-path", "proof: trace", []deviceValue{{"off", "gateway"}, {"on", "fast-path"}}},
		{"appliance-fast-path", "proof: trace", []deviceValue{{"off", "appliance"}, {"on", "appliance-fast-path"}}},
	}},
}

// switched measures each of the studies in the lab and on hosts.
func switched(ctx context.Context, o options) error {
	for _, s := range studies {
		if o.only != "" && o.only != s.experiment {
			continue
		}
		if err := s.measure(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", s.experiment, err)
		}
	}
	return nil
}

// perRound is how many blocks the lab measures, and then the hosts, or the other way
// round, before it is the other's turn: each run on hosts rehearses all paths first.
const perRound = 2

const switchedFile = "switched.yaml"

func (s study) measure(ctx context.Context, o options) (err error) {
	text, err := experiments.Read(s.experiment)
	if err != nil {
		return err
	}
	file := s.experiment + ".yaml"
	n, err := newNetwork(ctx, file, string(text), o.hopbench)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	socket, err := n.serveDevice(s.switches)
	if err != nil {
		return err
	}
	bed, err := s.testbed(n, socket)
	if err != nil {
		return err
	}
	if err := n.write(switchedFile, bed); err != nil {
		return err
	}
	if err := n.await(ctx, switchedFile); err != nil {
		return err
	}
	e := n.experiment
	rounds := (cmp.Or(o.blocks, e.Blocks) + perRound - 1) / perRound
	head := store.Head{
		Name: s.experiment, Experiment: string(text), File: file, Argument: s.experiment, Seed: o.seed, Blocks: rounds * perRound,
		Started: time.Now(), Environment: map[string]string{}, Matters: labMargins(),
		Planned: rounds * perRound * len(e.Paths) * len(e.Tests),
	}
	onHosts := head
	head.Testbed, onHosts.TestbedFile = n.lab.Info(), &store.File{Name: n.path(switchedFile), Text: bed}
	labTrials, hostsTrials, runErr := n.rounds(ctx, head, rounds, &onHosts)
	lab, err := keep(subfolder(o.out, s.experiment+"-lab"), head, labTrials)
	if err != nil {
		return errors.Join(runErr, err)
	}
	hosts, err := keep(subfolder(o.out, s.experiment+"-hosts"), onHosts, hostsTrials)
	if err != nil {
		return errors.Join(runErr, err)
	}
	return errors.Join(runErr, compare(lab, hosts))
}

// labMargins are the smallest effects that matter in a lab. Between hosts other ones do by
// default, and verdicts are to be compared that ask the same.
func labMargins() map[string]measurement.Margin {
	margins := map[string]measurement.Margin{}
	for _, m := range measurement.Catalogue() {
		if m.Compared {
			margins[m.Name] = m.MarginIn(true)
		}
	}
	return margins
}

func subfolder(folder, name string) string {
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, name)
}

// testbed is the testbed file: the paths are on the wires of the lab.
func (s study) testbed(n *network, socket string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "format: hopbench.testbed/1\nname: bench\nkind: hosts\ntoken_file: %s\nendpoints:\n  %s: {reach: local}\n  %s: {reach: \"tls://%s\"}\npaths:\n",
		tokenFile, n.experiment.Source, n.experiment.Destination, n.reached())
	for _, p := range n.lab.Laid() {
		fmt.Fprintf(&b, "  %s: {to: \"%s:%d\"", p.Name, p.Destination, testsPort)
		for _, w := range s.switches {
			for _, v := range w.values {
				if v.path == p.Name {
					fmt.Fprintf(&b, ", set: {%s: %s}", w.name, v.value)
				}
			}
		}
		b.WriteString("}\n")
	}
	b.WriteString("switches:\n")
	for _, w := range s.switches {
		command := fmt.Sprintf("%q, %s, %q, %s", self, deviceRole, socket, w.name)
		fmt.Fprintf(&b, "  %s:\n    %s\n    settle: %v\n    read: [%s]\n    values:\n", w.name, w.proof, settle(n.experiment, w), command)
		for _, v := range w.values {
			fmt.Fprintf(&b, "      %s: [%s, %s]\n", v.value, command, v.value)
		}
	}
	return b.String(), nil
}

// settle is how long the lab lets a switched path settle.
func settle(e *experiment.Experiment, w deviceSwitch) (longest time.Duration) {
	for _, p := range e.Paths {
		if slices.ContainsFunc(w.values, func(v deviceValue) bool { return v.path == p.Name && p.VariantOf != "" }) {
			longest = max(longest, p.Settle)
		}
	}
	return longest
}

// rounds measures all rounds by both, and what there is when it is stopped.
func (n *network) rounds(ctx context.Context, head store.Head, rounds int, hosts *store.Head) (byLab, byHosts []measurement.Trial, err error) {
	random := rand.New(rand.NewPCG(head.Seed, 2))
	first := random.IntN(2)
	for round := range rounds {
		for turn := range 2 {
			seed := random.Uint64N(1 << 53)
			var trials []measurement.Trial
			of := &byLab
			if (first+round+turn)%2 == 0 {
				one := head
				one.Seed, one.Blocks = seed, perRound
				trials, err = n.inLab(ctx, one)
			} else {
				of = &byHosts
				var r *result.Result
				if r, err = n.onHosts(ctx, head.Argument, switchedFile, seed, "--blocks", fmt.Sprint(perRound)); err == nil {
					trials = r.Trials
					hosts.Testbed, hosts.TwoStage = r.Testbed, r.Experiment.TwoStage
				}
			}
			if err != nil {
				return byLab, byHosts, err
			}
			*of = append(*of, renumbered(trials, round*perRound, len(*of))...)
		}
		fmt.Fprintf(os.Stderr, "%s: block %d of %d\n", head.Name, (round+1)*perRound, rounds*perRound)
	}
	return byLab, byHosts, nil
}

// renumbered are trials of a run as those of a longer one, after so many blocks and trials.
func renumbered(trials []measurement.Trial, blocks, before int) []measurement.Trial {
	out := slices.Clone(trials)
	for i := range out {
		t := &out[i]
		t.Block, t.Order = t.Block+blocks, t.Order+before
		t.ID = fmt.Sprintf("b%02d-%s-%s", t.Block, t.Path, t.Test)
	}
	return out
}

// compare prints the verdicts of both, side by side.
func compare(lab, hosts *result.Result) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "\n| %s, %s\t| test, metric\t| lab\t| hosts, switched by commands\t| verdict\t|\n|---\t|---\t|---\t|---\t|---\t|\n", lab.Experiment.Name, words.Blocks(lab.Experiment.Blocks, hosts.Experiment.TwoStage))
	same, all := 0, 0
	for _, c := range lab.Costs {
		i := slices.IndexFunc(hosts.Costs, func(h result.Effect) bool {
			return h.Path == c.Path && h.Baseline == c.Baseline && h.Test == c.Test && h.Metric == c.Metric && (h.Against == nil) == (c.Against == nil)
		})
		if !c.Primary || i < 0 {
			continue
		}
		all++
		verdict := "differs"
		if hosts.Costs[i].Verdict == c.Verdict {
			verdict = "same"
			same++
		}
		fmt.Fprintf(table, "| %s over %s\t| %s, %s\t| %s\t| %s\t| %s\t|\n", c.Path, c.Baseline, c.Test, measurement.MetricOf(c.Metric).Label, described(c), described(hosts.Costs[i]), verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d verdicts are the same. Trials that do not count: %s in the lab, %s on hosts. Switching on hosts took %s in the middle, of %s.\n",
		same, all, excluded(lab), excluded(hosts), switchTime(hosts), quantity.Count(changes(hosts), "change"))
	return nil
}

// described is an effect with its interval and verdict.
func described(e result.Effect) string {
	size, between := words.Size(e)
	return strings.TrimSpace(size+" "+between) + ": " + words.Verdict(e)
}

// excluded counts the trials that gates exclude, by what they found.
func excluded(r *result.Result) string {
	var why []string
	n := 0
	for _, t := range r.Trials {
		if t.Gate.Passed {
			continue
		}
		n++
		why = append(why, fmt.Sprintf("%s: %s", t.ID, words.Findings(t.Gate, true)))
	}
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", n, strings.Join(why, "; "))
}

// changes counts the trials before which a path was switched.
func changes(r *result.Result) (n int) {
	for _, t := range r.Trials {
		if t.Fingerprint.Switched {
			n++
		}
	}
	return n
}

// switchTime is the median of how long commands and proofs took.
func switchTime(r *result.Result) string {
	var took []time.Duration
	for _, t := range r.Trials {
		if t.Fingerprint.Switched && t.Fingerprint.Switch != nil {
			took = append(took, t.Fingerprint.Switch.Took.Duration())
		}
	}
	if len(took) == 0 {
		return "no time"
	}
	slices.Sort(took)
	return quantity.FormatDuration(took[len(took)/2].Round(10 * time.Millisecond))
}
