package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// machineJobs is a file that only the virtual machine of test/vm has. Its clock is
// nobody's, so that it may be set.
const machineJobs = "/jobs.json"

// clockFaults are those of a machine whose clock is set in the middle of trials.
func clockFaults() []faults {
	d := design{
		name: "clock",
		// Short and slow: what this runs on is emulated.
		tests: []test{{"rr", "kind: rr, duration: 500ms, max_warmup: 20ms"}, {"ping", "kind: ping, count: 20, interval: 20ms"}},
	}
	hop := "{type: router, name: hop}"
	d.paths = []path{{sham, hop}}
	var all []fault
	for _, step := range []struct {
		path, says string
		by         time.Duration
	}{
		{"forward", "1 s forward", time.Second},
		{"back", "1 s back", -time.Second},
		{"little", "5 ms forward", 5 * time.Millisecond},
	} {
		d.paths = append(d.paths, path{step.path, hop})
		for _, t := range d.tests {
			all = append(all, faultOf(fmt.Sprintf("the clock is set %s during %s", step.says, t.name), step.path, t.name, asMissing,
				setClock(step.by), measurement.FoundClockStepped))
		}
	}
	return []faults{{design: d, faults: all}}
}

// setClock sets the clock of this machine forward, and back behind the trial.
func setClock(by time.Duration) planter {
	return func(context.Context, *bed, experiment.PlannedTrial) (func() error, error) {
		set := midway(200*time.Millisecond, func() error { return stepClock(by) })
		return func() error {
			if err := set(); err != nil {
				return err
			}
			return stepClock(-by)
		}, nil
	}
}

// clockSteps measures in the virtual machine of test/vm, which it starts unless it runs
// there.
func clockSteps(ctx context.Context, o options, c *campaign) (report, error) {
	_, err := os.Stat(machineJobs)
	if err == nil {
		return plantFaults(ctx, c, clockFaults(), o.pick(2, 10), "The clock of a virtual machine (test/vm) is set in the middle of every trial of a path.")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return report{}, fmt.Errorf("find out whether this is the virtual machine: %w", err)
	}
	inside := fmt.Sprintf("-part clock -seed %d -limit %v -out /tmp/truth", o.seed, o.limit)
	if hash, ok := strings.CutPrefix(o.commit, "commit "); ok {
		inside += " -commit " + hash
	}
	if o.short {
		inside += " -short"
	}
	said, err := exec.CommandContext(ctx, "go", "run", "./test/vm", "-timeout", o.limit.String(), "-program", "./bench/truth "+inside).CombinedOutput()
	if err != nil {
		return report{}, fmt.Errorf("measure in the virtual machine: %w\n%s", err, said)
	}
	var lines []string
	for line := range strings.Lines(string(said)) {
		if own, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), machinePrefix); ok {
			lines = append(lines, own)
		}
	}
	// Its first line is the name of the part, what comes before is progress.
	_, found, ok := strings.Cut(strings.Join(lines, "\n"), "\nclock\n")
	if !ok {
		return report{}, fmt.Errorf("the virtual machine said nothing of the clock:\n%s", said)
	}
	return report{text: []string{strings.TrimSpace(found)}}, nil
}

// machinePrefix begins each line of test/vm that a program in the machine printed.
const machinePrefix = "    | "
