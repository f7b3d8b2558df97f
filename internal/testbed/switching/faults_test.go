package switching_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
	"github.com/hopbench/hopbench/internal/words"
)

// bed is a testbed whose paths are switched by a device, and whose agents measure
// nothing: a trial only takes its time.
type bed struct {
	*switching.Switcher
	d         *device
	plan      experiment.Plan
	meanwhile func() // in a trial
	wrong     map[string]bool
}

const trialTakes = 8 * time.Second

func (b *bed) Info() result.Testbed                { return result.Testbed{Kind: "hosts"} }
func (b *bed) Environment() map[string]string      { return nil }
func (b *bed) Facts() []string                     { return nil }
func (b *bed) Done() <-chan struct{}               { return nil }
func (b *bed) Err() error                          { return nil }
func (b *bed) Close() error                        { return nil }
func (b *bed) Agent(string) (testbed.Agent, error) { return b, nil }
func (b *bed) Paths() (paths []testbed.Path) {
	for _, p := range b.d.paths {
		paths = append(paths, testbed.Path{Name: p.Name, Pairs: []testbed.Pair{{Source: "a", Destination: "b"}}})
	}
	return paths
}

func (b *bed) Run(ctx context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	path := ""
	for _, t := range b.plan.Trials {
		if t.ID == r.ID {
			path = t.Path
		}
	}
	wrong, err := b.d.trial(ctx, path, trialTakes, b.meanwhile)
	b.wrong[r.ID] = wrong
	return measurement.Outcome{
		Metrics: measurement.Metrics{"rtt_p50_seconds": 1e-3},
		Latency: &measurement.Distribution{Samples: 100, Min: 1e-3, Max: 2e-3},
	}, err
}

// fault is a sort of planted fault: it prepares a device, and says how a run ends.
type fault struct {
	name string
	// unproven says that the read command shows the fault, so that it needs no proof.
	unproven  bool
	plant     func(r *rand.Rand, d *device)
	meanwhile func(r *rand.Rand, d *device) // in trials
	// ends is after how long the run is stopped; killed: without restoring anything.
	ends   func(r *rand.Rand) time.Duration
	killed bool
	// restless devices say at once that they have a value, and act later than the timeout.
	restless bool
}

// sometimes reacts so to a share of the commands.
func sometimes(r *rand.Rand, share float64, with func() reaction) func(*device, string, string) reaction {
	return func(*device, string, string) reaction {
		if r.Float64() < share {
			return with()
		}
		return reaction{}
	}
}

// other is another value than the one in force.
func other(r *rand.Rand, d *device, name string) string {
	for {
		if v := fmt.Sprintf("v%d", r.IntN(3)); v != d.is[name] {
			return v
		}
	}
}

// anyTime is a moment of a run, or of what comes before its first trial.
func anyTime(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(150 * time.Second)))
}

// anyTimeLater is a time after a command began at which its timeout is over, and which a
// restoration waits for.
func anyTimeLater(r *rand.Rand) time.Duration {
	return time.Minute + time.Duration(r.Int64N(int64(59*time.Second)))
}

// flip sets another value in force at any moment of a trial. Two such flips in one trial,
// away and back, could be seen by nobody.
func flip(r *rand.Rand, d *device, says bool) {
	value := other(r, d, "s0")
	d.later(time.Duration(r.Int64N(int64(trialTakes))), func() { d.put("s0", value, says) })
}

func faults() []fault {
	return []fault{
		{name: "none", unproven: true},
		{name: "fails", unproven: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction {
				return reaction{err: errors.New("exit status 1: no such rule"), ignored: r.Float64() < 0.5}
			})
		}},
		{name: "hangs", unproven: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction { return reaction{hangs: true, ignored: r.Float64() < 0.5} })
		}},
		{name: "lies", plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, drawn(r, 0.2, 0.5), func() reaction { return reaction{ignored: true, pretends: true} })
		}},
		{name: "does nothing", plant: func(_ *rand.Rand, d *device) {
			d.on = func(*device, string, string) reaction { return reaction{ignored: true, pretends: true} }
		}},
		{name: "acts on half of the values", plant: func(r *rand.Rand, d *device) {
			dead, of := fmt.Sprintf("v%d", r.IntN(2)), fmt.Sprintf("s%d", r.IntN(2))
			d.on = func(_ *device, name, value string) reaction {
				return reaction{ignored: name == of && value == dead, pretends: true}
			}
		}},
		{name: "acts on one switch", plant: func(r *rand.Rand, d *device) {
			dead := fmt.Sprintf("s%d", r.IntN(2))
			d.on = func(_ *device, name, _ string) reaction { return reaction{ignored: name == dead, pretends: true} }
		}},
		{name: "sets another value", plant: func(r *rand.Rand, d *device) {
			d.on = func(d *device, name, _ string) reaction {
				if r.Float64() < 0.3 {
					return reaction{instead: other(r, d, name), pretends: true}
				}
				return reaction{}
			}
		}},
		{name: "is one command behind", plant: func(_ *rand.Rand, d *device) {
			before := map[string]string{}
			d.on = func(_ *device, name, value string) reaction {
				was := before[name]
				before[name] = value
				return reaction{ignored: was == "", instead: was, pretends: true}
			}
		}},
		{name: "acts late", plant: func(r *rand.Rand, d *device) {
			pretends := r.Float64() < 0.7
			d.on = sometimes(r, 0.5, func() reaction {
				return reaction{after: time.Duration(r.Int64N(int64(50 * time.Second))), pretends: pretends}
			})
		}},
		{name: "acts too late", restless: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction {
				return reaction{after: time.Minute + time.Duration(r.Int64N(int64(time.Minute))), pretends: true}
			})
		}},
		{name: "acts after its time-out", unproven: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction { return reaction{hangs: true, after: anyTimeLater(r)} })
		}},
		{name: "is killed and acts later", unproven: true, ends: anyTime, killed: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction { return reaction{hangs: true, after: anyTimeLater(r)} })
		}},
		{name: "flips back in the trial", unproven: true, meanwhile: func(r *rand.Rand, d *device) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if r.Float64() < 0.5 {
				return
			}
			name, was := "s0", d.is["s0"]
			value := other(r, d, name)
			begins := time.Duration(r.Int64N(int64(trialTakes / 2)))
			// Shorter ones than the watch's interval cannot be seen by anyone.
			lasts := 1100*time.Millisecond + time.Duration(r.Int64N(int64(trialTakes/3)))
			d.later(begins, func() { d.put(name, value, true) })
			d.later(begins+lasts, func() { d.put(name, was, true) })
		}},
		{name: "flips in the trial", unproven: true, meanwhile: func(r *rand.Rand, d *device) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if r.Float64() < 0.5 {
				flip(r, d, true)
			}
		}},
		{name: "flips and does not say so", meanwhile: func(r *rand.Rand, d *device) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if r.Float64() < 0.5 {
				flip(r, d, false)
			}
		}},
		{name: "cannot be read", unproven: true, plant: func(r *rand.Rand, d *device) {
			d.read = func(d *device) error {
				switch {
				case r.Float64() > 0.2:
					return nil
				case r.Float64() < 0.5:
					return errors.New("exit status 255: connection timed out")
				}
				d.says["s0"] = "\x1b[2Joff? on?"
				return nil
			}
		}},
		{name: "is interrupted", unproven: true, ends: anyTime},
		{name: "is interrupted and fails", unproven: true, ends: anyTime, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction { return reaction{err: errors.New("exit status 1"), ignored: r.Float64() < 0.5} })
		}},
		{name: "is interrupted and lies", ends: anyTime, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.2, func() reaction { return reaction{ignored: true, pretends: true} })
		}},
		{name: "is killed", unproven: true, ends: anyTime, killed: true},
		{name: "is killed and hangs", unproven: true, ends: anyTime, killed: true, plant: func(r *rand.Rand, d *device) {
			d.on = sometimes(r, 0.3, func() reaction { return reaction{hangs: true} })
		}},
	}
}

// tally counts what became of the trials of a sort of fault.
type tally struct{ runs, trials, counted, wrong int }

// However commands fail, no trial counts in which another path was in force, each that
// does not count says which switch is why, and in the end the device is as it was.
func TestPlantedFaults(t *testing.T) {
	all := faults()
	tallies := make([]tally, len(all))
	for seed := range 500 {
		k := seed % len(all)
		t.Run(fmt.Sprintf("%d %s", seed, all[k].name), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { plantFault(t, uint64(seed), all[k], dir, &tallies[k]) })
		})
	}
	wrong := 0
	for k, f := range all {
		n := tallies[k]
		t.Logf("%-28s %3d runs, %4d trials: %4d count, %3d were on another path at least for a while", f.name, n.runs, n.trials, n.counted, n.wrong)
		wrong += n.wrong
		if f.name == "none" && n.counted != n.trials {
			t.Errorf("without a fault %d of %d trials count", n.counted, n.trials)
		}
	}
	if wrong == 0 {
		t.Error("no fault hit a trial")
	}
}

func plantFault(t *testing.T, seed uint64, f fault, dir string, n *tally) {
	r := rand.New(rand.NewPCG(seed, 16))
	proof := drawn(r, inventory.ProofTrace, inventory.ProofCanary, inventory.ProofCommand)
	if f.unproven {
		proof = drawn(r, proof, inventory.ProofNone)
	}
	switches := []inventory.Switch{switchOf("s0", 3, proof)}
	sets := []map[string]string{{"s0": "v0"}, {"s0": "v1"}, {"s0": "v2"}}
	if r.Float64() < 0.5 {
		switches = append(switches, switchOf("s1", 3, proof))
		sets = []map[string]string{{"s0": "v0", "s1": "v0"}, {"s0": "v1", "s1": "v1"}, {"s0": "v1", "s1": "v0"}, {"s0": "v0", "s1": "v1"}}
	}
	sets = sets[:2+r.IntN(len(sets)-1)]
	ownEnds := r.Float64() < 0.5
	var paths []inventory.Path
	for i, set := range sets {
		to := "192.0.2.1"
		if ownEnds {
			to = fmt.Sprintf("192.0.2.%d", i+1)
		}
		paths = append(paths, pathOf(fmt.Sprintf("p%d", i), to, set))
	}
	found := map[string]string{"s0": "v0", "s1": "v0"}
	maps.Copy(found, drawn(r, sets...))
	if proof != inventory.ProofTrace && r.Float64() < 0.5 || f.unproven {
		found["s0"] = "v2" // which may be no path's: a trace cannot prove that it is restored
	}
	if len(switches) == 1 {
		delete(found, "s1")
	}
	d := newDevice(paths, found)
	defer d.stop()
	begins := func() {}
	if f.plant != nil {
		begins = sync.OnceFunc(func() {
			d.mu.Lock() // a watch may read
			defer d.mu.Unlock()
			f.plant(r, d)
		})
	}
	if r.Float64() < 0.5 {
		begins() // else in the first trial: the rehearsal is passed
	}
	o := d.options(dir+"/bed.yaml.found", switches...)
	b := &bed{Switcher: newSwitcher(t, o), d: d, wrong: map[string]bool{}}
	b.meanwhile = func() {
		begins()
		if f.meanwhile != nil {
			f.meanwhile(r, d)
		}
	}
	spec := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverTCP, Duration: measurement.SecondsOf(trialTakes)}.Defaults()
	for i := range 3 * len(paths) {
		p := paths[r.IntN(len(paths))].Name
		b.plan.Trials = append(b.plan.Trials, experiment.PlannedTrial{ID: fmt.Sprintf("t%02d-%s", i, p), Block: 1 + i/len(paths), Order: i + 1, Path: p, Test: "rr", Spec: spec})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if f.ends != nil {
		ctx, cancel = context.WithTimeout(ctx, f.ends(r))
		defer cancel()
	}
	keeper := &runner.Memory{}
	err := runner.Run(ctx, runner.Options{Planner: runner.Fixed(b.plan), Testbed: b, Keeper: keeper})
	if (err != nil) != (f.ends != nil && ctx.Err() != nil) {
		t.Fatalf("the run ended with %v", err)
	}
	n.runs++
	for _, trial := range keeper.Kept {
		n.trials++
		said := words.Findings(trial.Gate, true)
		switch {
		case b.wrong[trial.ID] && trial.Gate.Passed:
			t.Errorf("trial %s counts, and another path was in force: %+v", trial.ID, trial.Fingerprint)
		case trial.Gate.Broken:
			t.Errorf("trial %s is said to be broken by its path: %s", trial.ID, said)
		case trial.Gate.Passed:
			n.counted++
			if s := trial.Fingerprint.Switch; s == nil || len(s.Set) != len(switches) || !strings.Contains(s.Proof, string(proof)) || s.Evidence == "" {
				t.Errorf("trial %s was switched by %+v", trial.ID, s)
			}
		case !strings.Contains(said, "switch s"):
			t.Errorf("trial %s does not count, and no switch is named: %s", trial.ID, said)
		case strings.ContainsAny(said, "\x1b\n"):
			t.Errorf("trial %s says %q", trial.ID, said)
		}
		if b.wrong[trial.ID] {
			n.wrong++
		}
	}
	checkRestored(t, b.Switcher, o, f, d, found)
}

// checkRestored restores what a run found; where that fails, it is said, and a later
// attempt is made once the device is well again.
func checkRestored(t *testing.T, s *switching.Switcher, o switching.Options, f fault, d *device, found map[string]string) {
	ctx := context.Background()
	failed := f.killed
	if f.killed {
		s.Die()
	} else {
		_, err := s.Restore(ctx)
		failed = err != nil
		if err != nil && !strings.Contains(err.Error(), "switch s") {
			t.Errorf("no switch is named by %v", err)
		}
	}
	d.mu.Lock()
	if f.restless && failed { // a later program has no ends that could trace, and reads lie
		for _, timer := range d.timers {
			timer.Stop()
		}
	}
	if _, err := os.Stat(o.Journal); failed == errors.Is(err, os.ErrNotExist) && !(f.killed && maps.Equal(d.is, found)) {
		t.Errorf("restored: %v; of the journal: %v", !failed, err)
	}
	d.on, d.read = nil, nil
	for name := range d.says {
		d.says[name] = d.is[name]
	}
	d.mu.Unlock()
	if failed {
		o.Trace, o.Canary = nil, nil
		if _, err := newSwitcher(t, o).Restore(ctx); err != nil {
			t.Errorf("the device is well again, and it is not restored: %v", err)
		}
	}
	time.Sleep(time.Hour) // until all that acts late has
	d.mu.Lock()
	defer d.mu.Unlock()
	if !maps.Equal(d.is, found) {
		t.Errorf("the device was at %v and is left at %v (restored at first: %v)", found, d.is, !failed)
	}
	if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal is left behind: %v", err)
	}
}
